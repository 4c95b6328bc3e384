"""The client of a running monitor: which addresses it takes, and how it knows a monitor."""

from __future__ import annotations

import pytest

from monitor.errors import ConfigError
from monitor.operations.monitor_client import MonitorClient
from tests.support.http_api import HttpApi, Says
from tests.support.tools import free_port


@pytest.mark.parametrize("url", ["", "ftp://h", "http://", "http://a b", "http://u:p@h", "http://h/?q", "http://h:x"])
def test_an_address_that_can_never_work_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="url"):
        MonitorClient(url)


@pytest.mark.parametrize("url", ["127.0.0.1:9464", "http://127.0.0.1:9464/", "http://127.0.0.1:9464/metrics"])
def test_an_address_may_be_written_as_people_do(url: str) -> None:
    assert MonitorClient(url).url == "http://127.0.0.1:9464"


@pytest.mark.parametrize(
    ("says", "is_one"),
    [
        (Says(status=404, content=b"rag-monitor serves /metrics"), True),
        (Says(status=401, headers={"www-authenticate": 'Bearer realm="rag-monitor"'}), True),
        (Says(status=404, content=b"not found"), False),
        (Says(status=200, content=b"a page about rag-monitor"), False),
    ],
)
def test_a_monitor_is_known_by_its_own_words_for_what_is_not_there(says: Says, is_one: bool) -> None:
    with HttpApi(says) as api:
        assert MonitorClient(api.url).is_monitor() is is_one


def test_where_nobody_listens_there_is_no_monitor() -> None:
    assert not MonitorClient(f"http://127.0.0.1:{free_port()}").is_monitor()
