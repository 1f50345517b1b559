//! A drop-in for GRUB (Debian's grub-mkconfig reads /etc/default/grub.d/*.cfg as shell, after /etc/default/grub).

use wiretail_schema::host::plan::TuningPlan;

use super::{Output, decided, heading, words};

/// Splits words as the kernel does (next_arg(), lib/cmdline.c): at blanks outside quotes. A quote may occur
/// anywhere in a word.
const TEMPLATE: &str = r#"# HEADING.
# Takes effect after update-grub and a reboot. Words that the profile sets or removes are first removed from the
# existing lines, so that none occurs twice. Blanks between quotes do not end a word.
wiretail_keep() {
	case "${1#\"}" in
	'' | PATTERNS) ;;
	*) printf '%s ' "$1" ;;
	esac
}
wiretail_without() {
	wiretail_rest=$1
	wiretail_word=
	wiretail_quoted=
	while [ -n "$wiretail_rest" ]; do
		wiretail_next=${wiretail_rest#?}
		wiretail_letter=${wiretail_rest%"$wiretail_next"}
		wiretail_rest=$wiretail_next
		case "$wiretail_quoted$wiretail_letter" in
		[[:space:]])
			wiretail_keep "$wiretail_word"
			wiretail_word=
			continue
			;;
		'"') wiretail_quoted=quoted ;;
		'quoted"') wiretail_quoted= ;;
		esac
		wiretail_word=$wiretail_word$wiretail_letter
	done
	wiretail_keep "$wiretail_word"
}
GRUB_CMDLINE_LINUX="$(wiretail_without "$GRUB_CMDLINE_LINUX")"
GRUB_CMDLINE_LINUX_DEFAULT="$(wiretail_without "$GRUB_CMDLINE_LINUX_DEFAULT")WORDS"
"#;

pub(super) fn files(plan: &TuningPlan) -> Vec<Output> {
    let patterns: Vec<String> =
        decided(plan).flat_map(|name| [name.to_owned(), format!("{name}=*")]).collect();
    let words = words(plan).join(" ");
    let text = TEMPLATE
        .replace("HEADING", &heading(plan))
        .replace("PATTERNS", &patterns.join("|"))
        .replace("WORDS", &words);
    vec![
        Output::new("etc/default/grub.d/99-wiretail.cfg", text, "GRUB: run update-grub and reboot")
            .installed(),
    ]
}
