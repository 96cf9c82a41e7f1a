"""Our reading of `etcd.proto` is that of protoc."""

from pathlib import Path

from google.protobuf import descriptor_pb2
from grpc_tools import protoc

import holdfast.engines.etcd
from holdfast.engines.etcd import protocol
from holdfast.engines.etcd.examine import ALARM, MEMBER_LIST, STATUS
from holdfast.engines.etcd.protocol import Method, read_proto

FOLDER = Path(holdfast.engines.etcd.__file__).parent


def test_it_declares_what_protoc_reads(tmp_path: Path) -> None:
    compiled = tmp_path / "etcd.pb"
    code = protoc.main(
        ["protoc", f"-I{FOLDER}", f"--descriptor_set_out={compiled}", str(FOLDER / "etcd.proto")]
    )
    assert code == 0
    [theirs] = descriptor_pb2.FileDescriptorSet.FromString(compiled.read_bytes()).file
    ours = read_proto()
    theirs.name = ours.name
    for message in theirs.message_type:
        for field in message.field:
            field.ClearField("json_name")  # nobody speaks JSON here
    assert ours == theirs


def test_every_message_is_used() -> None:
    """What is declared is what some method says, or hears."""
    file = read_proto()
    fields = {
        message.name: {field.type_name.rpartition(".")[2] for field in message.field}
        for message in file.message_type
    }
    known = (*vars(protocol).values(), ALARM, MEMBER_LIST, STATUS)
    methods = [each for each in known if isinstance(each, Method)]
    names = [method.path.rpartition("/")[2] for method in methods]
    reached = {name + end for name in names for end in ("Request", "Response")}
    while more := set().union(*(fields[name] for name in reached)) - reached - {""}:
        reached |= more
    assert reached == set(fields)
