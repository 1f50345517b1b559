//! Container of runc, crun, Docker or Kubernetes: the CPU part of config.json (OCI runtime specification,
//! config-linux).

use wiretail_schema::host::plan::TuningPlan;

use super::Output;

pub(super) fn files(plan: &TuningPlan) -> Vec<Output> {
    let text = format!(
        r#"{{
  "annotations": {{
    "wiretail.profile": "{}"
  }},
  "linux": {{
    "resources": {{
      "cpu": {{
        "cpus": "{}",
        "quota": -1
      }}
    }}
  }}
}}
"#,
        plan.profile.name(),
        plan.cores
    );
    let use_it = "OCI: merge into config.json with jq -s '.[0] * .[1]' config.json FILE; docker run --cpuset-cpus has the same effect";
    vec![Output::new("oci/config.json", text, use_it)]
}
