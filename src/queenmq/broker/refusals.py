"""Requests that are refused for how they use HTTP, and not in the tree of `errors`: our clients do not send them."""

from queenmq.errors import InvalidArgument, Refused


class UnexpectedBody(InvalidArgument):
    """The body is JSON, and not what the call takes."""

    hint = "GET /docs shows what this call takes."


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


class UnsupportedTransferEncoding(Refused):
    """The body is transferred in an encoding that this server cannot undo."""

    code = "UNSUPPORTED_TRANSFER_ENCODING"
    http_status = 415
    hint = "Send the body with Content-Length, or with Transfer-Encoding: chunked and nothing else."


class UnsupportedEncoding(Refused):
    """The body is compressed or otherwise encoded."""

    code = "UNSUPPORTED_ENCODING"
    http_status = 415
    hint = "Send the body as plain JSON, without Content-Encoding."


class CrossSite(Refused):
    """A web page of another origin made a browser send this request."""

    code = "CROSS_SITE"
    http_status = 403
    hint = "If this page may use the server, add its origin to QUEEN_CORS_ORIGINS."


class UnknownHost(Refused):
    """The request is addressed to a host name that this server does not have."""

    code = "UNKNOWN_HOST"
    http_status = 421
    hint = "Use the server's IP address or localhost, or add the name to QUEEN_HOSTS."
