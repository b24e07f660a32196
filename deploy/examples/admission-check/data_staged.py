"""Answers the AdmissionCheck data-staged: work starts once its data is staged.

The annotation example.com/needs-claim of a workload's object names a PersistentVolumeClaim of its namespace. Ready: the
claim is Bound, or none is named. Runs in a pod with nothing but Python; asks every few seconds and keeps nothing.
"""

import json
import os
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

CHECK = "data-staged"
ANNOTATION = "example.com/needs-claim"
ACCOUNT = Path(os.environ.get("ACCOUNT", "/var/run/secrets/kubernetes.io/serviceaccount"))
SERVER = os.environ.get("SERVER", "https://kubernetes.default.svc")
REQUESTS = "/apis/muster.dev/v1alpha1"
TRUSTED = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))


def call(path: str, patch: Any = None) -> Any:
    """The object at a path; with ``patch`` as it is after a merge patch. Raises HTTPError, URLError."""
    request = urllib.request.Request(
        SERVER + path,
        method="GET" if patch is None else "PATCH",
        data=None if patch is None else json.dumps(patch).encode(),
        headers={
            "Authorization": f"Bearer {(ACCOUNT / 'token').read_text()}",  # it is renewed every hour
            "Content-Type": "application/merge-patch+json",
        },
    )
    with urllib.request.urlopen(request, timeout=10, context=TRUSTED) as answer:
        return json.load(answer)


def claim_of(request: Any) -> str:
    """The claim that the workload's object names; "": none."""
    metadata = request["metadata"]
    owner = metadata["ownerReferences"][0]
    api = "/api" if owner["apiVersion"] == "v1" else "/apis"
    kind = f"{owner['kind'].lower()}s"
    path = f"{api}/{owner['apiVersion']}/namespaces/{metadata['namespace']}/{kind}/{owner['name']}"
    return str((call(path)["metadata"].get("annotations") or {}).get(ANNOTATION, ""))


def answer_to(request: Any) -> dict[str, str]:
    """Whether the data of a workload is staged."""
    claim = claim_of(request)
    if not claim:
        return {"answer": "Ready", "message": "it names no claim"}
    path = f"/api/v1/namespaces/{request['metadata']['namespace']}/persistentvolumeclaims/{claim}"
    try:
        phase = call(path)["status"].get("phase", "Pending")
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise
        return {"answer": "Pending", "message": f"there is no claim {claim}"}
    return {"answer": "Ready" if phase == "Bound" else "Pending", "message": f"claim {claim} is {phase}"}


def answer(request: Any) -> None:
    """Write the answer, if it is another one than the request has."""
    metadata, before = request["metadata"], request.get("status") or {}
    status: dict[str, Any] = {**answer_to(request), "observedGeneration": metadata["generation"]}
    if any(before.get(key) != value for key, value in status.items()):
        status["answeredAt"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        place = f"{REQUESTS}/namespaces/{metadata['namespace']}/checkrequests/{metadata['name']}/status"
        call(place, {"status": status})


def main() -> None:
    """Answer for ever. What fails for one request is said, and tried again."""
    while True:
        try:
            for request in call(f"{REQUESTS}/checkrequests")["items"]:
                if request["spec"]["check"] == CHECK:
                    try:
                        answer(request)
                    except urllib.error.HTTPError as error:
                        print(request["metadata"]["name"], error.code, error.read()[:300], file=sys.stderr)
        except urllib.error.URLError as error:
            print(error, file=sys.stderr)
        time.sleep(2)


if __name__ == "__main__":
    main()
