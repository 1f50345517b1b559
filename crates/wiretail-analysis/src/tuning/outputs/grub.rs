//! A drop-in for GRUB (Debian's grub-mkconfig reads /etc/default/grub.d/*.cfg as shell, after /etc/default/grub).

use wiretail_schema::host::plan::TuningPlan;

use super::{Output, decided, heading, words};

pub(super) fn files(plan: &TuningPlan) -> Vec<Output> {
    let patterns: Vec<String> =
        decided(plan).flat_map(|name| [name.to_owned(), format!("{name}=*")]).collect();
    let words = words(plan).join(" ");
    let text = format!(
        "# {}.\n\
         # Takes effect with update-grub and a start of the machine. Words that the profile decides on are taken out first,\n\
         # whoever had put them in, so that none stands there twice.\n\
         wiretail_without() {{\n\
         \tset -f\n\
         \tfor wiretail_word in $1; do\n\
         \t\tcase \"$wiretail_word\" in\n\
         \t\t{}) ;;\n\
         \t\t*) printf '%s ' \"$wiretail_word\" ;;\n\
         \t\tesac\n\
         \tdone\n\
         \tset +f\n\
         }}\n\
         GRUB_CMDLINE_LINUX=\"$(wiretail_without \"$GRUB_CMDLINE_LINUX\")\"\n\
         GRUB_CMDLINE_LINUX_DEFAULT=\"$(wiretail_without \"$GRUB_CMDLINE_LINUX_DEFAULT\"){words}\"\n",
        heading(plan),
        patterns.join("|"),
    );
    vec![
        Output::new("etc/default/grub.d/99-wiretail.cfg", text, "GRUB: update-grub, then start again")
            .installed(),
    ]
}
