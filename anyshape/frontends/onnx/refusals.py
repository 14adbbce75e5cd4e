"""Why a node cannot be taken, raised by lowerings; the importer adds which node of which file it is."""


class Unsupported(Exception):
    """The node says something that anyshape lacks. All of these in a model are collected into one UnsupportedOps."""


class Malformed(Exception):
    """The node breaks ONNX's rules, or its operands do not fit each other. Becomes a FileFormatError."""


__all__ = ["Malformed", "Unsupported"]
