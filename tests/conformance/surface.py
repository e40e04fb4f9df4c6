"""What the surface_*.py files are written with: each item once, run by the sync and the async client.

An item is an async function that gets a Kit. `kit.commands` and `kit.files` are the SDK's services with
every method awaitable (those of the sync client run in a thread), and remember which methods were called.
"""
import asyncio
import time
import traceback

from opensandbox.exceptions import SandboxApiException
from opensandbox.models.execd import ExecutionHandlers
from opensandbox.models.execd_sync import ExecutionHandlersSync

SECONDS = 30  # until something that must come is given up on
ITEMS = []


def item(function):
    ITEMS.append(function)
    return function


class Service:
    def __init__(self, service, is_sync):
        self._service, self._is_sync, self.called = service, is_sync, set()

    def __getattr__(self, name):
        method = getattr(self._service, name)

        async def call(*args, **kwargs):
            self.called.add(name)
            if self._is_sync:
                return await asyncio.to_thread(method, *args, **kwargs)
            return await method(*args, **kwargs)
        return call


class Kit:
    def __init__(self, box, is_sync):
        self.box, self.is_sync = box, is_sync
        self.commands = Service(box.commands, is_sync)
        self.files = Service(box.files, is_sync)
        self.whole = Service(box, is_sync)

    def handlers(self, skip_accumulation=False, **functions):
        if self.is_sync:
            return ExecutionHandlersSync(skip_accumulation=skip_accumulation, **functions)

        def awaitable(function):
            async def handle(event):
                function(event)
            return handle
        return ExecutionHandlers(skip_accumulation=skip_accumulation,
                                 **{name: awaitable(f) for name, f in functions.items()})

    async def chunks(self, stream):
        if self.is_sync:
            return await asyncio.to_thread(list, stream)
        return [chunk async for chunk in stream]

    async def output(self, command, **options):
        """stdout of a command that must succeed."""
        done = await self.commands.run(command, **options)
        assert done.exit_code == 0, done
        return stdout(done)

    async def start(self, command, event="on_init", session=None):
        """A foreground command that goes on; its task and its first event of this kind."""
        loop = asyncio.get_running_loop()
        first = loop.create_future()

        def tell(value):
            if not first.done():
                first.set_result(value)
        handlers = self.handlers(**{event: lambda e: loop.call_soon_threadsafe(tell, e)})
        run = (self.commands.run(command, handlers=handlers) if session is None else
               self.commands.run_in_session(session, command, handlers=handlers))
        task = asyncio.create_task(run)
        return task, await asyncio.wait_for(first, SECONDS)


def stdout(done):
    return [message.text for message in done.logs.stdout]


def stderr(done):
    return [message.text for message in done.logs.stderr]


def equal(got, wanted):
    assert got == wanted, f"got {got!r}, wanted {wanted!r}"


async def until(condition, what):
    deadline = time.monotonic() + SECONDS
    while not await condition():
        assert time.monotonic() < deadline, f"never happened: {what}"
        await asyncio.sleep(0.05)


async def refused(call, status, code=None):
    """The call must fail with the SDK's exception for this answer; returns it."""
    try:
        result = await call
    except SandboxApiException as problem:
        assert problem.status_code == status, f"status {problem.status_code}: {problem}"
        # Where the SDK expects no such status it keeps the body in the message only.
        assert code is None or problem.error.code == code or f'"{code}"' in str(problem), problem
        return problem
    raise AssertionError(f"not refused: {result!r}")


async def failed(call):
    """An SDK exception that carries a status; which one is not promised."""
    try:
        await call
    except SandboxApiException as problem:
        assert problem.status_code >= 400, problem
        return
    raise AssertionError("did not fail")


async def run_items(kit):
    """Try every item; one `STEP name: outcome` line each."""
    for function in ITEMS:
        try:
            await asyncio.wait_for(function(kit), 4 * SECONDS)
            outcome = "ok"
        except BaseException as problem:
            traceback.print_exc()
            outcome = f"{type(problem).__name__}: {problem}".replace("\n", " ")
        print(f"STEP {function.__name__}: {outcome}", flush=True)
