"""Label selectors of Kubernetes: whether labels meet them, and how people read them."""

from collections.abc import Iterable, Mapping

from queues.workload import Requirement


def holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Whether labels meet one requirement of a label selector."""
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return False


def selects(selector: Iterable[Requirement], labels: Mapping[str, str]) -> bool:
    """Whether labels meet all requirements; a selector without any selects everything."""
    return all(holds(each, labels) for each in selector)


def selector_text(selector: Iterable[Requirement]) -> str:
    """The selector as kubectl writes it: ``team=a,tier in (gold, silver),!legacy``."""
    return ",".join(_text(each) for each in selector)


def labels_text(selector: Iterable[Requirement], labels: Mapping[str, str]) -> str:
    """What labels say about the keys of a selector: ``team=b, no label tier``. No other label is named."""
    keys = dict.fromkeys(each.key for each in selector)
    return ", ".join(f"{key}={labels[key]}" if key in labels else f"no label {key}" for key in keys)


def _text(requirement: Requirement) -> str:
    key, values = requirement.key, ", ".join(requirement.values)
    match requirement.operator:
        case "Exists":
            return key
        case "DoesNotExist":
            return f"!{key}"
        case "In" if len(requirement.values) == 1:
            return f"{key}={values}"
        case _:
            return f"{key} {requirement.operator.lower()} ({values})"
