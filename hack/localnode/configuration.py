"""What each daemon of a node is told: configuration files and command lines."""

from __future__ import annotations

import json
from typing import Any

from . import cgroups
from .layout import CLUSTER_DOMAIN, CONTAINERD_SOCKET, HOSTNAME, PAUSE_IMAGE, Layout

CLIENT_CA = "apiserver-client.crt"
# How much the kubelet leaves free on a machine that does other things as well, before it evicts pods.
EVICTION = {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"}


def write(layout: Layout) -> None:
    """Writes every configuration file."""
    folder = layout.configuration
    (folder / "cni").mkdir()
    (folder / "volume-plugins").mkdir()
    (folder / "containerd.toml").write_text(containerd(layout))
    (folder / "cni" / "10-worklease.conflist").write_text(json.dumps(pod_network(layout)))
    (folder / "kubelet.json").write_text(json.dumps(kubelet(layout)))
    (folder / "kube-proxy.json").write_text(json.dumps(kube_proxy(layout)))
    (folder / "Corefile").write_text(corefile(layout))
    # A pod with `dnsPolicy: Default` gets this: it resolves nothing, since nothing outside is promised.
    (folder / "resolv.conf").write_text("options timeout:1 attempts:1\n")


def commands(layout: Layout) -> dict[str, list[str]]:
    """The command line of each daemon that needs an API server, by name."""
    folder, programs = layout.configuration, layout.programs
    scheduler_access = layout.kubeconfig("kube-scheduler")
    return {
        "kubelet": [
            programs["kubelet"],
            f"--config={folder / 'kubelet.json'}",
            f"--kubeconfig={layout.kubeconfig('kubelet')}",
            f"--hostname-override={HOSTNAME}",
            f"--node-ip={layout.node_address}",
            f"--cert-dir={layout.root / 'kubelet-certificates'}",
        ],
        "kube-proxy": [programs["kube-proxy"], f"--config={folder / 'kube-proxy.json'}"],
        "kube-scheduler": [
            programs["kube-scheduler"],
            f"--kubeconfig={scheduler_access}",
            f"--authentication-kubeconfig={scheduler_access}",
            f"--authorization-kubeconfig={scheduler_access}",
            "--bind-address=127.0.0.1",
            f"--cert-dir={layout.root / 'scheduler-certificates'}",
            "--leader-elect=false",
        ],
        "coredns": [programs["coredns"], "-conf", str(folder / "Corefile")],
    }


def containerd_command(layout: Layout) -> list[str]:
    """The command line of containerd."""
    return [layout.programs["containerd"], f"--config={layout.configuration / 'containerd.toml'}"]


def containerd(layout: Layout) -> str:
    """Version 2 of the format, which containerd 1 and 2 both read."""
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    text = json.dumps
    return f"""version = 2
root = {text(str(layout.root / "containerd"))}
state = "/run/containerd"
[grpc]
  address = {text(CONTAINERD_SOCKET)}
[{cri}]
  sandbox_image = {text(PAUSE_IMAGE)}
  restrict_oom_score_adj = true
  disable_apparmor = true
  tolerate_missing_hugetlb_controller = true
  disable_hugetlb_controller = true
[{cri}.cni]
  bin_dir = {text(layout.programs["cni"])}
  conf_dir = {text(str(layout.configuration / "cni"))}
[{cri}.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[{cri}.containerd.runtimes.runc.options]
  BinaryName = {text(layout.programs["runc"])}
"""


def pod_network(layout: Layout) -> dict[str, Any]:
    """One bridge for all pods, and everything that leaves it in the node's name."""
    addresses = {
        "type": "host-local",
        "dataDir": "/run/pod-addresses",
        "ranges": [[{"subnet": layout.pods}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {"type": "bridge", "bridge": "pods", "isGateway": True, "ipMasq": True, "hairpinMode": True}
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "1.0.0", "name": "worklease", "plugins": [{**bridge, "ipam": addresses}, ports]}


def kubelet(layout: Layout) -> dict[str, Any]:
    """Only the API server may talk to it, and it never judges the pods by the machine's spare disk."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{layout.slot}",
        "cgroupsPerQOS": True,
        "enforceNodeAllocatable": ["pods"],
        "failSwapOn": False,
        # Without CAP_SYS_RESOURCE it may not lower its own.
        "oomScoreAdj": 0,
        "podLogsDir": "/var/log/pods",
        "volumePluginDir": str(layout.configuration / "volume-plugins"),
        "resolvConf": str(layout.configuration / "resolv.conf"),
        "clusterDNS": [layout.node_address],
        "clusterDomain": CLUSTER_DOMAIN,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": False},
            "x509": {"clientCAFile": str(layout.configuration / CLIENT_CA)},
        },
        "authorization": {"mode": "Webhook"},
        "evictionHard": EVICTION,
        "imageGCHighThresholdPercent": 100,
        "nodeStatusUpdateFrequency": "5s",
        "nodeStatusReportFrequency": "10s",
    }


def kube_proxy(layout: Layout) -> dict[str, Any]:
    """Services by iptables; the machine's own connection tracking is left as it is."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "bindAddress": "0.0.0.0",
        "clientConnection": {"kubeconfig": str(layout.kubeconfig("kube-proxy"))},
        "clusterCIDR": layout.pods,
        "detectLocalMode": "ClusterCIDR",
        "hostnameOverride": HOSTNAME,
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }


def corefile(layout: Layout) -> str:
    """Names of the cluster; it knows no others."""
    return f""".:53 {{
    errors
    ready 127.0.0.1:8181
    kubernetes {CLUSTER_DOMAIN} {{
        kubeconfig {layout.kubeconfig("coredns")}
    }}
    cache 5
}}
"""


def hidden_settings() -> dict[str, str]:
    """Settings of the kernel that the kubelet insists on. It is shown them and the machine keeps its own."""
    return {
        "vm/overcommit_memory": "1",
        "vm/panic_on_oom": "0",
        "kernel/panic": "10",
        "kernel/panic_on_oops": "1",
        "kernel/keys/root_maxkeys": "1000000",
        "kernel/keys/root_maxbytes": "25000000",
    }


def shows_unified() -> bool:
    """Whether a second, empty hierarchy of cgroups has to be taken out of the node's sight."""
    return cgroups.is_version_1() and cgroups.HYBRID.is_dir()
