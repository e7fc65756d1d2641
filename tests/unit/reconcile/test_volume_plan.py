"""What is written before a pod with claims is bound (API 7.2)."""

from __future__ import annotations

import pytest

from kai_sched import Cluster
from kai_sched.model.constraints import NodeSelector, Requirement
from kai_sched.model.objects import Node, Object, Pod, Shape, StorageClass, Volume, VolumeClaim
from kai_sched.model.volumes import VolumeBook
from kai_sched.plan.effects import ClaimVolume, Ref, SelectNode, VolumeWrite
from kai_sched.reconcile.volume_plan import Refusal, VolumePlan, plan_volumes

RWO = ("ReadWriteOnce",)
NODES = (Node("a", labels={"zone": "x"}), Node("b", labels={"zone": "y"}))
LOCAL = StorageClass("local", True, "kubernetes.io/no-provisioner")
FAST = StorageClass("fast", True, "csi.example.com")


def zone(name: str) -> NodeSelector:
    return ((Requirement("zone", "In", (name,)),),)


def claim(name: str, storage: str = "local", size: float = 1.0, volume: str = "", selected: str = "") -> VolumeClaim:
    phase = "Bound" if volume else "Pending"
    return VolumeClaim("ml", name, phase, volume, storage, False, RWO, size, uid=f"uid-{name}", selected_node=selected)


def volume(name: str, where: str = "x", size: float = 1.0, holder: str = "", holder_uid: str = "") -> Volume:
    phase = "Available"
    return Volume(name, zone(where), "local", holder, phase, RWO, size, uid=f"uid-{name}", claim_uid=holder_uid)


def plan(
    *objects: Object, node: str = "a", claims: tuple[str, ...] = ("c",), decided: dict[str, VolumeWrite] | None = None
) -> VolumePlan | Refusal:
    """The plan for a pod with these claims, in a cluster of two nodes, two classes and these objects."""
    book = VolumeBook(Cluster.of([*NODES, LOCAL, FAST, *objects]))
    pod = Pod("ml", "p", Shape(claims=tuple(f"ml/{name}" for name in claims)))
    return plan_volumes(book, pod, node, decided or {})


def reserve(volume_name: str, claim_name: str) -> ClaimVolume:
    return ClaimVolume(
        Ref("v1", "PersistentVolume", "", volume_name, f"uid-{volume_name}"),
        Ref("v1", "PersistentVolumeClaim", "ml", claim_name, f"uid-{claim_name}"),
    )


def provision(claim_name: str, node: str) -> SelectNode:
    return SelectNode(Ref("v1", "PersistentVolumeClaim", "ml", claim_name, f"uid-{claim_name}"), node)


def refusal(found: VolumePlan | Refusal) -> str:
    assert isinstance(found, Refusal)
    return found.message


class TestPlan:
    def test_a_pod_without_claims_needs_nothing(self) -> None:
        assert plan(claims=()) == VolumePlan()

    def test_a_bound_claim_needs_nothing(self) -> None:
        assert plan(claim("c", volume="v"), volume("v", holder="ml/c")) == VolumePlan()

    def test_the_smallest_volume_that_fits(self) -> None:
        found = plan(claim("c", size=2.0), volume("small"), volume("large", size=9.0), volume("right", size=3.0))
        assert found == VolumePlan((reserve("right", "c"),), ("ml/c",))

    def test_volumes_of_one_size_go_by_name(self) -> None:
        assert plan(claim("c"), volume("w"), volume("v")) == VolumePlan((reserve("v", "c"),), ("ml/c",))

    def test_only_volumes_that_the_node_reaches(self) -> None:
        found = plan(claim("c"), volume("v", "x"), volume("w", "y", size=9.0), node="b")
        assert found == VolumePlan((reserve("w", "c"),), ("ml/c",))

    def test_a_class_that_makes_volumes_is_told_the_node(self) -> None:
        assert plan(claim("c", "fast"), node="b") == VolumePlan((provision("c", "b"),), ("ml/c",))

    def test_a_free_volume_is_taken_before_one_is_made(self) -> None:
        free = Volume("v", None, "fast", "", "Available", RWO, 1.0, uid="uid-v")
        assert plan(claim("c", "fast"), free) == VolumePlan((reserve("v", "c"),), ("ml/c",))

    def test_what_an_administrator_keeps_for_the_claim_is_made_sure_of(self) -> None:
        """The claim's uid is still to be written."""
        found = plan(claim("c"), volume("a"), volume("kept", size=9.0, holder="ml/c"))
        assert found == VolumePlan((reserve("kept", "c"),), ("ml/c",))

    def test_nothing_is_written_twice(self) -> None:
        """The volume is reserved, the node is selected: what is left is to wait."""
        reserved = volume("v", holder="ml/c", holder_uid="uid-c")
        assert plan(claim("c"), reserved) == VolumePlan((), ("ml/c",))
        assert plan(claim("c", "fast", selected="a")) == VolumePlan((), ("ml/c",))

    def test_claims_of_one_pod_get_different_volumes(self) -> None:
        """The smaller claim comes first, so that the larger volume is left for the other one."""
        objects = (claim("c", size=5.0), claim("d", size=1.0), volume("v", size=5.0), volume("w", size=2.0))
        found = plan(*objects, claims=("c", "d"))
        assert found == VolumePlan((reserve("w", "d"), reserve("v", "c")), ("ml/c", "ml/d"))


class TestRefusal:
    @pytest.mark.parametrize(
        ("objects", "texts"),
        [
            ((), ("ml/c", "does not exist")),
            ((VolumeClaim("ml", "c", deleted=True),), ("being deleted",)),
            ((VolumeClaim("ml", "c", "Lost", "v"),), ("lost its volume v",)),
            ((claim("c", volume="v"),), ("volume v", "does not exist")),
            ((claim("c", volume="v"), volume("v", "y")), ("v", "cannot reach")),
            ((claim("c", "unknown"),), ("not bound",)),
            ((StorageClass("now", False, "csi.example.com"), claim("c", "now")), ("binds immediately",)),
            ((claim("c"), volume("v", "y")), ("local", "ReadWriteOnce", "node a")),
            ((claim("c", "fast", selected="b"),), ("node a",)),
            ((StorageClass("fast", True, "csi.example.com", zone("y")), claim("c", "fast")), ("fast", "node a")),
        ],
    )
    def test_texts(self, objects: tuple[Object, ...], texts: tuple[str, ...]) -> None:
        message = refusal(plan(*objects))
        assert [text for text in texts if text not in message] == []

    def test_a_node_that_is_gone(self) -> None:
        assert "node z is gone" in refusal(plan(claim("c", "fast"), node="z"))

    def test_a_kept_volume_out_of_reach_is_not_passed_over(self) -> None:
        """Kubernetes would bind the claim to the volume that is kept for it, whatever is decided here."""
        kept = Volume("v", zone("y"), "fast", "ml/c", "Available", RWO, 1.0)
        assert "node a" in refusal(plan(claim("c", "fast"), kept))


class TestDecidedBefore:
    """What other pods of the cycle were promised, or pods whose volumes are still being bound."""

    def test_a_volume_is_promised_once(self) -> None:
        objects = (claim("c"), claim("d"), volume("v"), volume("w"))
        assert plan(*objects, decided={"ml/d": reserve("v", "d")}) == VolumePlan((reserve("w", "c"),), ("ml/c",))
        others = (claim("c"), claim("d"), volume("v"))
        assert "finds no free" in refusal(plan(*others, decided={"ml/d": reserve("v", "d")}))

    def test_a_claim_that_two_pods_share_is_decided_once(self) -> None:
        objects = (claim("c"), volume("u"), volume("v"))
        assert plan(*objects, decided={"ml/c": reserve("v", "c")}) == VolumePlan((), ("ml/c",))
        assert "another node" in refusal(plan(*objects, node="b", decided={"ml/c": reserve("v", "c")}))

    def test_a_node_that_is_selected_for_one_pod_binds_the_other(self) -> None:
        decided: dict[str, VolumeWrite] = {"ml/c": provision("c", "a")}
        assert plan(claim("c", "fast"), decided=decided) == VolumePlan((), ("ml/c",))
        assert "another node" in refusal(plan(claim("c", "fast"), node="b", decided=decided))

    def test_what_has_come_true_is_looked_at_as_it_is(self) -> None:
        decided: dict[str, VolumeWrite] = {"ml/c": provision("c", "a")}
        assert plan(claim("c", "fast", volume="v"), volume("v"), decided=decided) == VolumePlan()
