"""Which nodes lie on which device, so that the device with the most to do has the least."""
