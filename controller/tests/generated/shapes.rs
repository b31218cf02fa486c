//! The page about the JSON and YAML that commands print, read from the printed types.

use argosy::cli::shapes;

use super::{
    definitions::fields,
    markdown::{head, table},
};

const ABOUT: &str = "Commands print objects of their own with `-o json` and `-o yaml`, the same in both.\n\
                     Scripts may rely on this page: a field \
                     keeps its name, type and meaning, and the changelog says where one does not; fields may be added.\n\n\
                     - A list is a bare array.\n\
                     \x20 With `--watch`, `-o json` prints the objects that are there as one array, then one object a line for \
                     each that changes.\n\
                     - A field that is not *always* there is left out where there is nothing to say.\n\
                     - Times are in UTC, as RFC 3339 has them.\n\
                     - The status of a condition (`True`, `False`, `Unknown`) and an amount (`3800m`) are strings, as in Kubernetes.\n\n\
                     `argosy render` prints the objects of Kubernetes that would be sent, as one List with `-o json`.";

pub(crate) fn page() -> String {
    let mut page = head("JSON of commands", ABOUT);
    for shape in shapes() {
        let schema = serde_json::to_value(&shape.schema).expect("a schema is JSON");
        let mut rows = Vec::new();
        fields("", &schema, "always", &mut rows);
        let what = if shape.is_list {
            "A list of objects"
        } else {
            "One object"
        };
        let table = table(["field", "type", "what"], rows);
        page.extend(["\n## ", shape.command, "\n\n", what, ".\n", &table]);
    }
    page
}

#[test]
fn every_command_that_prints_json_has_its_shape_on_the_page() {
    use argosy::cli::Cli;
    use clap::{Command, CommandFactory};

    fn printing(command: &mut Command, found: &mut Vec<String>) {
        let prints = command.get_arguments().any(|argument| {
            let values = argument.get_possible_values();
            argument.get_id() == "output" && values.iter().any(|value| value.get_name() == "json")
        });
        if prints {
            found.push(command.get_bin_name().unwrap_or_default().to_owned());
        }
        for subcommand in command.get_subcommands_mut() {
            printing(subcommand, found);
        }
    }
    let mut command = Cli::command();
    command.build();
    let mut printed = Vec::new();
    printing(&mut command, &mut printed);
    printed.sort();
    let mut told: Vec<&str> = shapes().iter().map(|shape| shape.command).collect();
    told.push("argosy render");
    told.sort_unstable();
    assert_eq!(printed, told);
}
