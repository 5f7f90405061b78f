"""Drives a real notebook kernel of this Python: argv is the project's folder; prints one JSON object with the
results."""

import json
import os
import sys
import threading
import time

from jupyter_client.manager import start_new_kernel

RUN = """
import svc
job = svc.run(task=svc.Task(entrypoint="train.py"), provider="local", gpus="cpu", wait=True)
print(job.status, job.exit_code)
job
"""
ENDLESS = 'svc.run(task={"entrypoint": "endless.py"}, provider="local", gpus="cpu", wait=True)'


def main(project: str) -> None:
    manager, client = start_new_kernel(kernel_name="python3", cwd=project)
    said: list[dict] = []

    def execute(code: str) -> dict:
        return client.execute_interactive(code, timeout=100, output_hook=lambda m: said.append(m))["content"]

    def interrupt() -> None:
        deadline = time.monotonic() + 60
        while not os.path.exists(os.path.join(project, "started")) and time.monotonic() < deadline:
            time.sleep(0.05)
        manager.interrupt_kernel()

    try:
        first = execute(RUN)
        thread = threading.Thread(target=interrupt)
        thread.start()
        second = execute(ENDLESS)
        thread.join()
        # The kernel catches the interrupt, which ends the watching and not the run.
        # The chart of the endless run is shown without blocking, and is drawn again once the run has ended.
        execute('svc.jobs()[0].chart()')
        third = execute('left = svc.jobs()[0]; print("after:", left.status); svc.kill(left.id); print("killed:", svc.wait(left.id).status)')
        execute("import threading\n[t.join(60) for t in threading.enumerate() if t.name.startswith('svc chart')]")
        refused = execute('svc.chart("nothing")')
    finally:
        client.stop_channels()
        manager.shutdown_kernel()
    text = "".join(m["content"].get("text", "") for m in said if m["msg_type"] == "stream")
    data = [m["content"]["data"] for m in said if m["msg_type"] == "execute_result"]
    shown = [m["content"]["data"]["text/plain"] for m in said if m["msg_type"] in ("display_data", "update_display_data")]
    charts = [
        m["content"]["data"]["text/html"]
        for m in said
        if m["msg_type"] in ("display_data", "update_display_data") and m["content"]["data"]["text/plain"].startswith("svc ·")
    ]
    traceback = "\n".join(refused["traceback"])
    replies = [reply.get("ename") or reply["status"] for reply in (first, second, third)]
    print(json.dumps({"replies": replies, "text": text, "kinds": sorted(data[0]) if data else [], "data": data, "shown": shown, "charts": charts, "traceback": traceback}))


main(sys.argv[1])
