"""The `slow` mark: cases of a second and more; leave them out with -m "not slow"."""


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes seconds (deselect with -m 'not slow')")
