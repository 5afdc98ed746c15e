"""Noise of images, and when sensors read.

Gaussian, Poisson, speckle and salt-and-pepper noise of RGB, Redwood's noise of depth, and the period and latency of a
sensor.
"""
