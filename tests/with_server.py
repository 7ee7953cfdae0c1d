"""Tests of a server that lives as long as their class."""

import unittest

from program import BINARY
from serving import Server


class WithServer(unittest.TestCase):
    """`server` runs with FLAGS; it must end well."""

    FLAGS = ()

    @classmethod
    def setUpClass(cls):
        cls.server = Server(BINARY, *cls.FLAGS)

    @classmethod
    def tearDownClass(cls):
        status = cls.server.stop()
        if status != 0:
            raise AssertionError(f"exit status {status}: {cls.server.log[-20:]}")
