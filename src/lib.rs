//! linkerd-mc links Kubernetes clusters.
