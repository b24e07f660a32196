"""An AdmissionCheck that the test answers, in the name of the service account of the check."""

from typing import Any

from queues.api.api_resources import ADMISSION_CHECKS, CHECK_REQUESTS
from tests.e2e.support.people import Person
from tests.e2e.support.sandbox import Sandbox


class AnsweredCheck:
    """One check of a sandbox."""

    def __init__(self, sandbox: Sandbox, suffix: str) -> None:
        self.sandbox, self.name = sandbox, f"{sandbox.name}-{suffix}"
        account = {"namespace": sandbox.name, "name": suffix}
        user = f"system:serviceaccount:{sandbox.name}:{suffix}"
        self._account = Person(sandbox, user, "muster-check-answerer")
        document = ADMISSION_CHECKS.document(self.name, spec={"answeredBy": account})
        sandbox.api.create(ADMISSION_CHECKS.path(), document)

    def delete(self) -> None:
        """The AdmissionCheck goes."""
        self.sandbox.api.delete(ADMISSION_CHECKS.path(name=self.name))

    def requests(self) -> dict[str, Any]:
        """By the name of the workload."""
        found = self.sandbox.api.get(CHECK_REQUESTS.path(self.sandbox.name))["items"]
        return {
            each["spec"]["workload"]["name"]: each for each in found if each["spec"]["check"] == self.name
        }

    def workloads(self) -> dict[str, str]:
        """What is asked about: names and uids."""
        return {name: each["spec"]["workload"]["uid"] for name, each in self.requests().items()}

    def answer(self, answer: str, *workloads: str, message: str = "") -> None:
        """To what was asked about these workloads, once it is asked."""
        self.sandbox.wait(lambda: set(workloads) <= set(self.requests()), f"{workloads} to be asked about")
        asked = self.requests()
        with self._account.client() as account:
            for name in workloads:
                meta = asked[name]["metadata"]
                status = {"answer": answer, "message": message, "observedGeneration": meta["generation"]}
                account.merge(
                    CHECK_REQUESTS.path(self.sandbox.name, meta["name"], "status"), {"status": status}
                )
