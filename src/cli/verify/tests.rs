//! The table and the report for CI.

use observe::verify::CanaryMode;

use super::*;

fn step(
    mode: Option<CanaryMode>,
    step: &'static str,
    result: StepResult,
    detail: &str,
) -> VerifyStep {
    VerifyStep {
        mode,
        step,
        result,
        milliseconds: (result != StepResult::Skipped).then_some(1234),
        detail: detail.to_owned(),
    }
}

fn report() -> VerifyReport {
    let mut report = VerifyReport {
        source: "west".into(),
        target: "east".into(),
        link: "linkerd-multicluster/east".into(),
        namespace: "linkerd-mc-verify".into(),
        ..VerifyReport::default()
    };
    let gateway = Some(CanaryMode::Gateway);
    report.push(step(
        gateway,
        "mirror",
        StepResult::Passed,
        "canary-gateway-east",
    ));
    report.push(step(
        gateway,
        "request",
        StepResult::Failed,
        "refused: <none> & \"x\"",
    ));
    let flat = Some(CanaryMode::RemoteDiscovery);
    report.push(step(
        flat,
        "mirror",
        StepResult::Skipped,
        "the Link selects none",
    ));
    report
}

#[test]
fn a_table_has_a_row_for_each_step_and_says_what_failed_below() {
    let text = view::text(&report(), None);
    let plain = anstream::adapter::strip_str(&text).to_string();
    let words = plain.lines().map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.join(" ")
    });
    assert_eq!(
        words.collect::<Vec<_>>(),
        [
            "MODE STEP RESULT MS DETAIL",
            "gateway mirror passed 1234 canary-gateway-east",
            "gateway request failed 1234 refused: <none> & \"x\"",
            "remote-discovery mirror skipped - the Link selects none",
            "",
            "request: refused: <none> & \"x\"",
            "west does not reach all Services of east",
        ]
    );
}

#[test]
fn a_report_for_ci_has_a_case_for_each_step() {
    insta::assert_snapshot!(report().junit(), @r#"
    <?xml version="1.0" encoding="UTF-8"?>
    <testsuites>
      <testsuite name="linkerd-mc verify: west from east" tests="3" failures="1" skipped="1">
        <testcase classname="linkerd-mc verify: west from east" name="gateway: mirror" time="1.234">
          <system-out>canary-gateway-east</system-out>
        </testcase>
        <testcase classname="linkerd-mc verify: west from east" name="gateway: request" time="1.234">
          <failure message="refused: &lt;none&gt; &amp; &quot;x&quot;">refused: &lt;none&gt; &amp; &quot;x&quot;</failure>
        </testcase>
        <testcase classname="linkerd-mc verify: west from east" name="remote-discovery: mirror">
          <skipped message="the Link selects none"/>
        </testcase>
      </testsuite>
    </testsuites>
    "#);
    let json = serde_json::to_value(report()).unwrap();
    assert_eq!(json["success"], false);
    assert_eq!(json["link"], "linkerd-multicluster/east");
    assert_eq!(
        json["steps"][0],
        serde_json::json!({
            "mode": "gateway", "step": "mirror", "result": "passed", "milliseconds": 1234,
            "detail": "canary-gateway-east",
        })
    );
    assert!(json["steps"][2]["milliseconds"].is_null());
}

#[test]
fn a_run_is_a_success_if_a_step_has_passed_and_none_has_failed() {
    let mut all = VerifyReport::default();
    assert!(!all.success);
    all.push(step(None, "a", StepResult::Skipped, ""));
    assert!(!all.success, "nothing was tried");
    all.push(step(None, "b", StepResult::Passed, ""));
    assert!(all.success);
    all.push(step(None, "c", StepResult::Failed, ""));
    assert!(!all.success);
}
