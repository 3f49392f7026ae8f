"""The local Kubernetes: a control plane and three nodes, each a *machine* of its own.

A machine is a set of namespaces (network, mounts, processes, host name, IPC) held by one process 1, which runs the
machine's services and ends with them. Whatever a node mounts, listens on, routes or filters exists only in there: to
end process 1 is a power loss, it takes everything along, and the host has nothing to clean up but folders.

    layout        names, addresses and folders; everything else follows from them
    machine       starting, ending and looking at a machine; init/ is its process 1
    cgroups       the control groups of the machines, v1 and v2
    network       the links and routes between the machines and to the host
    pki           certificates; kubeconfigs who may use them
    control_plane, node, addons, desired   what runs where, as plain data
    volumes       the provisioner of dynamic volumes, a service of the control plane
    store         container images, unpacked once and shared by all nodes
    bring_up, health, faults, teardown   what the commands do

This file imports nothing: process 1 of a machine, which has the standard library alone, passes through it.
"""
