"""What the webhook answers to objects that are made to harm it."""

from typing import cast

from admission.kube.webhook.review import ReviewContext, mutate, validate

NOBODY = cast(ReviewContext, None)


def review(depth: int) -> bytes:
    template = b'{"a":' * depth + b"1" + b"}" * depth
    return (
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE",'
        b'"object":{"apiVersion":"v1","kind":"Unknown","spec":' + template + b"}}}"
    )


async def test_an_object_that_is_nested_too_deeply_is_refused() -> None:
    answer = await validate(review(5000), NOBODY)
    assert answer.uid == "u"
    assert answer.refusals == ("found nesting deeper than 200 levels, expected less",)
    assert mutate(review(5000), NOBODY).patch == ()
