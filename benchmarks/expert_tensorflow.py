"""LeNet-5 as a TensorFlow user would write it for speed: Keras layers, a loop in the graph."""

import json
import time

import keras
import tensorflow as tf
from keras import layers

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)

model = keras.Sequential(
    [
        keras.Input((28, 28, 1)),
        layers.Conv2D(6, 5, padding="same", activation="relu"),
        layers.MaxPooling2D(2),
        layers.Conv2D(16, 5, activation="relu"),
        layers.MaxPooling2D(2),
        layers.Flatten(),
        layers.Dense(120, activation="relu"),
        layers.Dense(84, activation="relu"),
        layers.Dense(10),
    ]
)
variables = [variable.value for variable in model.trainable_variables]
velocities = [tf.Variable(tf.zeros_like(variable)) for variable in variables]
images = tf.random.normal((8, 64, 28, 28, 1))
labels = tf.random.uniform((8, 64), 0, 10, tf.int32)


@tf.function
def eight_steps():
    loss = 0.0
    for i in tf.range(8):
        with tf.GradientTape() as tape:
            logits = model(images[i], training=True)
            each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels[i], logits)
            loss = tf.reduce_mean(each)
        gradients = tape.gradient(loss, variables)
        for variable, velocity, gradient in zip(variables, velocities, gradients, strict=True):
            tf.raw_ops.ResourceApplyMomentum(
                var=variable.handle, accum=velocity.handle, lr=0.01, grad=gradient, momentum=0.9
            )
    return loss


def train(seconds):
    """Steps made in about that time."""
    begin, steps = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        loss = eight_steps()
        steps += 8
    float(loss)
    return steps, time.perf_counter() - begin


train(2)
steps, seconds = train(5)
print(json.dumps(steps * 64 / seconds))
