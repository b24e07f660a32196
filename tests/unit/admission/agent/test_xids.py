"""What XIDs mean: the table against what its sources say."""

import pytest

from admission.agent.xids import XIDS, XidClass, _table, xid, xid_class

#: NVIDIA's device plugin leaves these out of its health checks.
APPLICATION_ERRORS = {13, 31, 43, 45, 68, 109}


def test_the_device_plugins_application_errors_leave_a_device_healthy() -> None:
    assert {code for code, known in XIDS.items() if "device plugin" in known.source} == APPLICATION_ERRORS
    assert {xid_class(code) for code in APPLICATION_ERRORS} == {XidClass.APPLICATION}


@pytest.mark.parametrize(
    ("xid_class_", "codes"),
    [
        (XidClass.RESET, (46, 48, 62, 74, 95, 110, 119, 120, 136, 140, 143, 144, 150, 155, 156, 158)),
        (XidClass.REBOOT, (79, 151)),
        (XidClass.HARDWARE, (54, 64)),
        (XidClass.NOTICE, (63, 92, 154, 162, 163)),
        (XidClass.APPLICATION, (8, 11, 32, 39, 69, 94, 126, 135)),
        (XidClass.UNKNOWN, (0, 1, 61, 90, 165, 999, 10_000)),
    ],
)
def test_codes_have_the_class_that_the_catalog_gives_them(
    xid_class_: XidClass, codes: tuple[int, ...]
) -> None:
    assert {code: xid_class(code) for code in codes} == dict.fromkeys(codes, xid_class_)


def test_only_application_faults_and_notices_leave_a_device_healthy() -> None:
    assert {each for each in XidClass if each.is_healthy} == {XidClass.APPLICATION, XidClass.NOTICE}
    assert not xid_class(10_000).is_healthy


def test_every_code_is_there_once_with_a_sentence_and_a_source() -> None:
    assert len(XIDS) == len(list(_table()))
    assert all(known.code == code for code, known in XIDS.items())
    assert all(known.meaning.endswith(".") and known.source for known in XIDS.values())
    assert all(known.xid_class is not XidClass.UNKNOWN for known in XIDS.values())


def test_a_code_that_is_not_known_says_where_to_look() -> None:
    unknown = xid(777)
    assert (unknown.code, unknown.xid_class) == (777, XidClass.UNKNOWN)
    assert "Xid catalog" in unknown.meaning
