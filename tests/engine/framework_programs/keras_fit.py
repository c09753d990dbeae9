"""A small convolutional network of Keras 3, trained by `fit`; the backend is the first argument."""

import os
import sys

os.environ["KERAS_BACKEND"] = sys.argv[1]
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
import keras
import numpy

keras.utils.set_random_seed(1)
model = keras.Sequential(
    [
        keras.layers.Input((8, 8, 1)),
        keras.Sequential(
            [keras.layers.Conv2D(4, 3, name="conv"), keras.layers.ReLU()], name="features"
        ),
        keras.layers.Flatten(),
        keras.layers.Dense(10, name="head"),
    ],
    name="digits",
)
model.compile(
    keras.optimizers.SGD(0.05),
    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
    run_eagerly="eager" in sys.argv,
)
images, labels = numpy.random.rand(128, 8, 8, 1), numpy.random.randint(10, size=128)
model.fit(images, labels, batch_size=16, epochs=2, verbose=0, validation_split=0.25)
