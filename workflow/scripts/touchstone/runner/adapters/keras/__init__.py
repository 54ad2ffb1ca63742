"""Training by Keras 3, whichever framework is its backend: what the style `plain` of several
adapters shares."""
