from __future__ import annotations

import hashlib
import importlib
import os
import signal
import threading
import time

import pytest
from command_line import PATIENCE, start

from pace_local import _native
from pace_local.errors import CancelledError, ModelError, NativeError, StorageError, TimeLimitError
from pace_local.models import REGISTRY, HubFile, Store
from pace_local.models.testing import ScriptedFetcher, gguf_bytes, tiny_model
from pace_local.terminal import Stop, accelerators, prepare_model, run_stoppable

pull = importlib.import_module("pace_local.models.pull")  # the package has a function of that name
CONTENT = gguf_bytes(tensor_bytes=1 << 16)
HUB = HubFile("someone/tiny-GGUF", "tiny.gguf", None)


@pytest.fixture(autouse=True)
def signals():
    """As in the foreground of a terminal, and afterwards as they were."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def wait_for(stop: Stop) -> None:
    """Work that looks now and then whether it is to stop."""
    end = time.monotonic() + PATIENCE
    while stop.reason is None and time.monotonic() < end:
        time.sleep(0.01)
    stop.raise_if_asked()


# Running work


def test_what_work_returns_is_returned():
    assert run_stoppable(lambda stop: (stop.reason, threading.current_thread().name)) == (None, "work")


@pytest.mark.parametrize("error", [ModelError("no model"), ValueError("a fault"), NativeError("DECODE", "x")])
def test_what_work_raises_is_raised_here(error):
    def work(stop):
        raise error

    with pytest.raises(type(error)) as caught:
        run_stoppable(work)
    assert caught.value is error


def test_the_time_limit_stops_work():
    with pytest.raises(TimeLimitError, match=r"^the time limit of 0\.05 s was reached$") as caught:
        run_stoppable(wait_for, 0.05)
    assert caught.value.exit_code == 124


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_work(number):
    def work(stop):
        os.kill(os.getpid(), number)
        wait_for(stop)

    with pytest.raises(CancelledError) as caught:
        run_stoppable(work)
    assert caught.value.exit_code == 130


def test_work_that_ends_after_it_was_asked_to_stop_was_stopped():
    with pytest.raises(TimeLimitError):
        run_stoppable(lambda stop: stop.request(TimeLimitError("late")))


def test_an_error_that_stopping_led_to_is_not_shown_instead():
    """When Ctrl-C also ended pip, a pull said that no source worked, with exit code 2."""

    def work(stop):
        stop.request(CancelledError("cancelled"))
        raise StorageError("no source gave the file")

    with pytest.raises(CancelledError):
        run_stoppable(work)


def test_a_fault_is_shown_even_if_work_was_asked_to_stop():
    def work(stop):
        stop.request(CancelledError("cancelled"))
        raise ValueError("a fault")

    with pytest.raises(ValueError, match="a fault"):
        run_stoppable(work)


def test_signal_handlers_are_as_before_afterwards():
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    seen = []
    run_stoppable(lambda stop: seen.append(signal.getsignal(signal.SIGINT)))
    with pytest.raises(ValueError, match="x"):
        run_stoppable(lambda stop: int("x"))
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert seen != handlers[:1]


def test_a_signal_that_is_ignored_stays_so():
    """A shell makes its background jobs ignore Ctrl-C; they are not to be stopped by one that others get."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def work(stop):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)
        return stop.reason

    assert run_stoppable(work) is None
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_a_limit_that_was_not_reached_leaves_no_timer():
    assert run_stoppable(lambda stop: 7, 3600) == 7
    for timer in (thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)):
        timer.join(PATIENCE)
        assert not timer.is_alive()


# Stopping


def test_a_request_calls_what_runs_now():
    stop, called = Stop(), []
    with stop.calling(lambda: called.append("outer")):
        with stop.calling(lambda: called.append("inner")):
            stop.request(CancelledError("first"))
        stop.request(TimeLimitError("second"))
    stop.request(CancelledError("third"))
    assert called == ["outer", "inner", "outer"]
    assert str(stop.reason) == "first"


def test_an_action_can_ask_again():
    """A second Ctrl-C comes in the same thread, in the midst of the first one's request."""
    stop, called = Stop(), []

    def action():
        called.append(1)
        if len(called) < 3:
            stop.request(CancelledError("again"))

    with stop.calling(action):
        stop.request(CancelledError("once"))
    assert len(called) == 3
    assert str(stop.reason) == "once"


def test_no_action_runs_after_its_end():
    """The session whose ``cancel`` it is may be closed by then."""
    stop, started, ended = Stop(), threading.Event(), threading.Event()
    order = []

    def action():
        started.set()
        ended.wait(0.2)
        order.append("action")

    def asking():
        stop.request(CancelledError("now"))

    with stop.calling(action):
        thread = threading.Thread(target=asking)
        thread.start()
        assert started.wait(PATIENCE)
    order.append("closed")
    ended.set()
    thread.join()
    assert order == ["action", "closed"]


def test_the_second_interrupt_ends_the_process_at_once():
    process = start(
        "import os, sys, time\n"
        "from pace_local.terminal import run_stoppable\n"
        "def work(stop):\n"
        "    print('deaf', flush=True)\n"
        "    while stop.reason is None: time.sleep(0.01)\n"
        "    print('asked', flush=True)\n"
        "    while True: time.sleep(1)\n"
        "try: run_stoppable(work)\n"
        "finally: print('orderly', flush=True)\n"
    )
    assert process.stdout.readline() == "deaf\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "asked\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert (out, err) == ("", "")


# Devices and models


def test_accelerators_are_what_can_hold_a_model(monkeypatch):
    devices = [
        _native.Device("CPU", "a processor", "cpu", 1, 2**34),
        _native.Device("CUDA0", "a card", "gpu", 2**33, 2**34),
        _native.Device("Vulkan1", "in the processor", "integrated gpu", 1, 2**33),
        _native.Device("Vulkan2", "an empty one", "gpu", 0, 0),
        _native.Device("BLAS", "a library", "accelerator", 0, 2**34),
    ]
    monkeypatch.setattr(_native, "devices", lambda: devices)
    found = [(device.name, device.total_bytes, device.unified) for device in accelerators()]
    assert found == [("CUDA0", 2**34, False), ("Vulkan1", 2**33, True)]


@pytest.fixture
def registry(tmp_path, monkeypatch):
    """A store of this test's own, and a model ``tiny`` that a scripted fetcher has."""
    info = tiny_model(CONTENT, (HUB,))
    monkeypatch.setenv("PACE_MODELS_DIR", str(tmp_path / "models"))
    monkeypatch.setitem(REGISTRY, "tiny", info)

    def fetch_with(**script):
        fetcher = ScriptedFetcher(HubFile, **script)
        monkeypatch.setattr(pull, "default_fetchers", lambda: (fetcher,))
        return fetcher

    return info, fetch_with


def test_a_model_that_is_missing_is_fetched_and_told(registry, capsys):
    info, fetch_with = registry
    fetch_with(content=CONTENT)
    resolved = prepare_model("tiny", Stop())
    assert resolved.info is info
    assert hashlib.sha256(resolved.path.read_bytes()).hexdigest() == info.sha256
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[0] == "model: tiny, chosen by --model"
    assert "100%" in err


def test_quiet_fetching_says_nothing(registry, capsys):
    registry[1](content=CONTENT)
    prepare_model("tiny", Stop(), quiet=True)
    assert capsys.readouterr() == ("", "")


def test_the_machine_chooses_if_nobody_does(registry, capsys, monkeypatch):
    registry[1](content=CONTENT)
    monkeypatch.setenv("PACE_MODEL", "tiny")
    prepare_model(None, Stop())
    assert "model: tiny, chosen by PACE_MODEL; --model changes it" in capsys.readouterr().err


def test_fetching_can_be_stopped(registry):
    """Before, Ctrl-C was heard only when all 16 GB were there."""
    info, fetch_with = registry
    fetch_with(content=CONTENT)
    stop = Stop()
    stop.request(CancelledError("cancelled"))
    with pytest.raises(CancelledError):
        prepare_model("tiny", stop, quiet=True)
    store = Store()
    assert not store.present(info)
    assert store.partial_bytes(info) >= len(CONTENT)
