"""No message and no file holds a user or a password of an address."""

from __future__ import annotations

from pathlib import Path

import pytest

from ensue import EnsueError
from ensue.lines import without_credentials
from ensue.stream.brokers import open_source
from tests.cli.conftest import run
from tests.stream.conftest import Server, log

SECRET = "s3cr3t"
UNREACHABLE = [
    f"redis://ann:{SECRET}@127.0.0.1:1/0?stream=clicks",
    f"redis://:{SECRET}%2F@127.0.0.1:1/0?stream=clicks",
    f"rediss://{SECRET}:{SECRET}@127.0.0.1:1/0?stream=a,b",
    f"unix://ann:{SECRET}@/nowhere.sock?stream=clicks",
]
WRONG = {
    f"redis://ann:{SECRET}@127.0.0.1:1/0": "no stream is named",
    f"redis://127.0.0.1:1/0?stream=a&password={SECRET}": "'password' is not known",
    f"redis://ann:{SECRET}@127.0.0.1:1/0?stream=a,a": "a key is named twice",
    f"redis://ann:{SECRET}/x@127.0.0.1:1/0?stream=a": "host, port or database cannot be read",
    f"redis://ann:{SECRET}@[127.0.0.1:1/0?stream=a": "is not an address",
    f"redis://ann:{SECRET}\u2100@host/0?stream=a": "is not an address",
    f"redis://ann:a {SECRET}@127.0.0.1:1/0?stream=a": "an address holds no spaces",
    f"reddis://ann:{SECRET}@127.0.0.1:1/0?stream=a": "reddis:// is not known",
    f"redis:/ann:{SECRET}@127.0.0.1:1/0?stream=a": "redis:/***@127.0.0.1:1/0?stream=a: no such file",
    f"redis:ann:{SECRET}@127.0.0.1:1/0?stream=a": "redis:***@127.0.0.1:1/0?stream=a: no such file",
    f"kafka://ann:{SECRET}@127.0.0.1:1/clicks": "give user and password in a file",
    f"kafka://127.0.0.1:1/clicks?sasl.password={SECRET}": "'sasl.password' is not known",
    "kafka://127.0.0.1:1/clicks?config={place}/value.properties": "security.protocol",
    "kafka://127.0.0.1:1/clicks?config={place}/line.properties": "line.properties, line 2: is not a key=value line",
}


@pytest.mark.parametrize("address", UNREACHABLE)
def test_a_server_that_cannot_be_reached(address: str) -> None:
    pytest.importorskip("redis")
    messages: list[str] = []
    source = open_source(address, messages.append)
    source.begin(None)
    assert source.read(1, 0.0).lines == []
    source.close()
    assert len(messages) == 1 and "is unreachable" in messages[0] and SECRET not in messages[0]


@pytest.mark.parametrize("address", WRONG)
def test_an_address_that_is_refused(
    address: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("redis")
    pytest.importorskip("confluent_kafka")
    (tmp_path / "value.properties").write_text(f"security.protocol={SECRET}\n")
    (tmp_path / "line.properties").write_text(f"# of our brokers\nsasl.password {SECRET}\n")
    address, message = address.replace("{place}", str(tmp_path)), WRONG[address]
    if "://" in address:
        with pytest.raises(EnsueError) as error:
            open_source(address, print)
        assert message in str(error.value) and SECRET not in str(error.value)
    done = run(monkeypatch, "stream", folder, address, "--no-follow")
    assert done.code == 2 and message in done.err and SECRET not in done.out + done.err


def test_a_password_that_is_refused_and_one_that_is_right(
    server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.add([*log(30), "{"])
    with server.client() as client:
        client.acl_setuser("ann", enabled=True, passwords=[f"+{SECRET}"], commands=["+@all"], keys=["*"])
    address = server.address.replace("redis://", f"redis://ann:{SECRET}x@")
    done = run(monkeypatch, "stream", folder, address, "--no-follow")
    assert done.code == 2 and "refused (invalid username-password pair" in done.err
    assert SECRET not in done.out + done.err
    done = run(monkeypatch, "stream", folder, address.replace(f"{SECRET}x", SECRET), "--no-follow", "--json")
    assert done.code == 0 and "redis://***@127.0.0.1" in done.err and '"learned": 30' in done.out
    files = [path for path in folder.parent.rglob("*") if path.is_file() and "redis" not in path.parts]
    assert len(files) > 5
    for text in (done.out, done.err, *(path.read_bytes().decode("latin-1") for path in files)):
        assert SECRET not in text


def test_an_argument_too_many(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = run(monkeypatch, "stream", folder, "clicks.jsonl", f"redis://ann:{SECRET}@127.0.0.1/0?stream=a")
    assert done.code == 2 and "redis://***@127.0.0.1" in done.err and SECRET not in done.err


def test_what_is_no_credential_stays() -> None:
    text = "see https://example.org/a?b=c, HR@20 12.1; max_tokens=512; redis://127.0.0.1/0?stream=clicks&group=a"
    assert without_credentials(text) == text
    assert without_credentials("a://u:p@h:1/?token=x&stream=s b://q@r") == "a://***@h:1/?token=***&stream=s b://***@r"
