"""Parts of a trace for X-Ray: one datagram each to the daemon that runs beside every function.

Lambda names the daemon's address and the trace of the event at hand in the environment; the
format is that of the X-Ray guide, "Sending trace data". Without the vendor's SDK: it would weigh
more than the functions' own code, and a datagram waits for nobody.
"""

import json
import os
import socket
from collections.abc import Mapping
from contextlib import suppress

DAEMON = "AWS_XRAY_DAEMON_ADDRESS"
TRACE = "_X_AMZN_TRACE_ID"
HEADER = b'{"format":"json","version":1}\n'


class XRay:
    """`Segments` of the event that the process works on."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ
        host, _, port = environ[DAEMON].rpartition(":")
        self._daemon = (host, int(port))
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)

    @staticmethod
    def present(environ: Mapping[str, str] = os.environ) -> bool:
        """Tell whether a daemon runs beside this process."""
        return DAEMON in environ

    def record(self, name: str, started: float, ended: float, outcome: str) -> None:
        """Send one subsegment of a sampled trace; what is lost on the way is lost."""
        fields = self._environ.get(TRACE, "").split(";")
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
            "end_time": ended,
            # Of an error only the kind: a vendor's message may quote the question.
            "fault": outcome != "ok",
            "annotations": {"outcome": outcome},
        }
        with suppress(OSError):
            self._socket.sendto(HEADER + json.dumps(segment).encode(), self._daemon)

    def close(self) -> None:
        """Send no more."""
        self._socket.close()
