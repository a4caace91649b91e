"""What a connection refuses before there is a request; it is not in the tree of `errors`: our clients never get it."""

from queenmq.errors import Refused


class InvalidHttp(Refused):
    """The request is not HTTP/1.1."""

    code = "INVALID_HTTP"
    hint = "Speak HTTP/1.1, with an address and headers as RFC 9112 has them."


class HeadersTooLarge(Refused):
    """The address and the headers are larger than this server accepts."""

    code = "HEADERS_TOO_LARGE"
    http_status = 431
    hint = "Send fewer and shorter headers, or raise QUEEN_HEADER_BYTES_MAX."


class HeadersTimeout(Refused):
    """The headers did not arrive in time."""

    code = "HEADERS_TIMEOUT"
    http_status = 408
    hint = "Send the address and the headers without pauses."
