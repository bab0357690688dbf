"""Google's status of a refused call, whichever transport carried it."""

import contextlib

import pytest
from google.api_core import exceptions


def status_of(error):
    if error.grpc_status_code is not None and error.response is None:
        return error.grpc_status_code.name
    if hasattr(error.response, "json"):
        return error.response.json()["error"]["status"]
    return error.grpc_status_code.name


@contextlib.contextmanager
def refused(*statuses):
    """The block must raise an API error with one of these statuses."""
    with pytest.raises(exceptions.GoogleAPICallError) as raised:
        yield raised
    assert status_of(raised.value) in statuses, str(raised.value)
