"""X-Ray segments (X-Ray guide, "Sending trace data")."""

import json
import os
import socket
from contextlib import suppress

DAEMON = "AWS_XRAY_DAEMON_ADDRESS"
TRACE = "_X_AMZN_TRACE_ID"
HEADER = b'{"format":"json","version":1}\n'


class XRay:
    """`Segments` of the event that the process handles."""

    def __init__(self) -> None:
        host, _, port = os.environ[DAEMON].rpartition(":")
        self._daemon = (host, int(port))
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)

    def record(self, name: str, started: float, end_time: float, outcome: str) -> None:
        """Send one subsegment if the trace is sampled; failures are ignored."""
        fields = os.environ.get(TRACE, "").split(";")
        trace = dict(field.split("=", 1) for field in fields if "=" in field)
        if trace.get("Sampled") != "1" or not {"Root", "Parent"} <= trace.keys():
            return
        segment = {
            "name": name,
            "id": os.urandom(8).hex(),
            "trace_id": trace["Root"],
            "parent_id": trace["Parent"],
            "type": "subsegment",
            "start_time": started,
            "end_time": end_time,
            # Only the error type: a vendor's message may contain the question.
            "fault": outcome != "ok",
            "annotations": {"outcome": outcome},
        }
        with suppress(OSError):
            self._socket.sendto(HEADER + json.dumps(segment).encode(), self._daemon)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
