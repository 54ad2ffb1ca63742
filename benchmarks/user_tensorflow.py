"""The networks as a TensorFlow user writes and trains them, after Keras's examples: its layers, and
`fit` on arrays of NumPy."""

import program
from tensorflow import keras
from tensorflow.keras import layers


def lenet5():
    return keras.Sequential(
        [
            layers.Input((28, 28, 1)),
            layers.Conv2D(6, 5, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(16, 5, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(120, activation="relu"),
            layers.Dense(84, activation="relu"),
            layers.Dense(10),
        ]
    )


def alexnet_cifar():
    return keras.Sequential(
        [
            layers.Input((32, 32, 3)),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(192, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(384, 3, padding="same", activation="relu"),
            layers.Conv2D(256, 3, padding="same", activation="relu"),
            layers.Conv2D(256, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dropout(0.5),
            layers.Dense(1024, activation="relu"),
            layers.Dropout(0.5),
            layers.Dense(1024, activation="relu"),
            layers.Dense(10),
        ]
    )


def conv_norm(x, filters, size, stride=1):
    x = layers.Conv2D(filters, size, stride, padding="same", use_bias=False)(x)
    return layers.BatchNormalization()(x)


def resnet20_cifar():
    inputs = keras.Input((32, 32, 3))
    x = layers.ReLU()(conv_norm(inputs, 16, 3))
    for filters in (16, 32, 64):
        for block in range(3):
            stride = 2 if block == 0 and filters > 16 else 1
            y = layers.ReLU()(conv_norm(x, filters, 3, stride))
            y = conv_norm(y, filters, 3)
            if stride > 1:
                x = conv_norm(x, filters, 1, stride)
            x = layers.ReLU()(layers.add([x, y]))
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.Dense(10)(x))


def lstm_text():
    return keras.Sequential(
        [
            layers.Input((64,)),
            layers.Embedding(program.BYTES, 64),
            layers.LSTM(128),
            layers.Dense(4),
        ]
    )


NETWORKS = {
    "lenet5": lenet5,
    "alexnet-cifar": alexnet_cifar,
    "resnet20-cifar": resnet20_cifar,
    "lstm-text": lstm_text,
}


class Training:
    def __init__(self, network, batch_size, batches):
        self.data = program.noise(network, batches * batch_size)
        self.batch_size = batch_size
        self.model = NETWORKS[network]()
        self.model.compile(
            optimizer=keras.optimizers.SGD(learning_rate=0.001, momentum=0.9),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        )

    def train(self, epochs, ended):
        end = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: ended())
        self.model.fit(
            *self.data, batch_size=self.batch_size, epochs=epochs, callbacks=[end], verbose=2
        )

    def parameters(self):
        return sum(array.shape.num_elements() for array in self.model.trainable_variables)


if __name__ == "__main__":
    program.user(NETWORKS, Training)
