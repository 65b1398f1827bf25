"""Owns what can be answered about configuration without a daemon: by files alone, read now.

It must not write anything, nor start anything. What was added to a daemon that is gone, and what a program's name leads
to on this machine, files do not tell.
"""

from __future__ import annotations

from mcphub.cli.change import Here
from mcphub.config.dedupe import Unwrap
from mcphub.config.load import Loaded
from mcphub.desired import judgements, twins
from mcphub.policy.combine import documents_of, policy_of
from mcphub.spec import StdioSpec
from mcphub.status import InventoryReport, PolicyReport, PolicyVerdict, WhyReport
from mcphub.store.approvals import ApprovalStore, Decisions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcphub.questions.inventory import Known


class Files:
    """All that files say for one directory, at one moment."""

    def __init__(self, workspace: str) -> None:
        here = Here.now()
        self.here = Here(here.places, workspace)
        self.loaded: Loaded = self.here.load()
        self.resolved = self.loaded.resolved
        self.decisions: Decisions
        self.decisions, self.store_problems = ApprovalStore(here.places.approvals).load()
        webapp = self.loaded.settings.webapp
        self.unwrap = Unwrap(webapp.unwrap_hosts, webapp.unwrap_parameter)

    def why(self, name: str) -> WhyReport:
        import msgspec

        from mcphub.questions import explain

        facts = explain.facts(
            name,
            self.resolved,
            [self.resolved],
            self.decisions,
            unwrap=self.unwrap,
            executed=_unknown,
            client_env=self.loaded.settings.client_env,
        )
        return explain.why(msgspec.structs.replace(facts, live=False))

    def policy(self) -> PolicyReport:
        from mcphub.questions.policy import policy_report

        return policy_report(documents_of(self.resolved), live=False)

    def policy_problems(self) -> list[str]:
        """What keeps rules from being known, of files of which nothing else can be told as well."""
        found = list(policy_of(self.resolved).closed)
        if not (self.loaded.rules_known or found):
            path = self.here.places.settings
            begun = (f"cannot use {path}:", f"cannot read {path}:")
            faults = (note.partition("; ")[0] for note in self.loaded.notes if note.startswith(begun))
            found += [f"{fault}; a daemon that runs keeps to the rules that it held last" for fault in faults]
        return found

    def verdict(self, name: str, url: str, command: tuple[str, ...]) -> PolicyVerdict:
        from mcphub.questions.policy import ask, ask_configured, verdict_report

        policy, unwrap = policy_of(self.resolved), self.unwrap
        one = self.resolved.servers.get(name)
        if one is not None and one.spec is not None and not (url or command):
            about, found = ask_configured(one, policy, unwrap=unwrap, executed=_unknown)
        else:
            about, found = ask(policy, name=name, url=url, command=command, unwrap=unwrap, executed=_unknown)
        return verdict_report(about, found, live=False)

    def inventory(self) -> InventoryReport:
        from mcphub.questions.inventory import inventory

        found = judgements(
            self.resolved.servers.values(), [self.resolved], self.decisions, unwrap=self.unwrap, executed=_unknown
        )
        replaced = twins(self.resolved, self.decisions, self.unwrap)
        return inventory(
            self.resolved, found, replaced, problems=self.problems(), warnings=self.warnings(), live=False
        )

    def known(self) -> list[Known]:
        from mcphub.questions.inventory import known_here

        return known_here(self.resolved)

    def problems(self) -> list[str]:
        """What cannot be used, of files and of the entries that win."""
        from mcphub.spec import Problem

        found = [*self.loaded.problems(), *policy_of(self.resolved).closed, *self.store_problems]
        found += [one.outcome.message for one in self.resolved.servers.values() if isinstance(one.outcome, Problem)]
        return list(dict.fromkeys(found))

    def warnings(self) -> list[str]:
        return list(dict.fromkeys([*self.loaded.warnings(), *policy_of(self.resolved).warnings]))


def _unknown(spec: StdioSpec) -> tuple[str, ...]:
    return ()
