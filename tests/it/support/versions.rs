//! What depends on the version of Kubernetes.

use std::io::Write as _;

use control_plane::ControlPlane;

/// The first minor version whose API has the range of `ClusterIP`s: `ServiceCIDR`s and `IPAddress`es.
pub(crate) const SERVICE_RANGES: u32 = 33;

/// Whether the cluster is of this minor version of Kubernetes or later. If it is not, a line says what a test leaves out
/// for that reason; `just compat` lists these lines at its end.
pub(crate) async fn has_version(plane: &ControlPlane, minor: u32, checked: &str) -> bool {
    let found = plane.minor_version().await.unwrap();
    if found < minor {
        let line = format!(
            "left out: {checked}: this needs Kubernetes 1.{minor}, and the cluster is 1.{found}\n"
        );
        // To the stream itself: what goes through `eprintln!` is only shown if the test fails.
        std::io::stderr().write_all(line.as_bytes()).unwrap();
    }
    found >= minor
}
