"""Noise of images: Gaussian, Poisson, speckle and salt-and-pepper noise of RGB, and Redwood's noise of depth."""
