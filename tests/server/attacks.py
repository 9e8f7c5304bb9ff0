"""Attacks on access control that other catalogs and libraries let through, and the tests that try them here.

A test is named by its module below ``tests`` and its function.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_ATTACKS: Final = "server/test_attacks_on_rights.py::"
_FEEDS: Final = "server/test_filtered_feeds.py::"
_FILTERS: Final = "server/test_filters.py::"
_FIGURES: Final = f"{_FILTERS}test_t62_the_figures_of_the_server_need_the_right_to_read_everything"
_LOCATIONS: Final = "server/test_locations.py::"
_OIDC: Final = "server/test_oidc.py::"
_POLICIES: Final = "domain/test_session_policies.py::"
_RIGHTS: Final = "server/test_rights.py::"
_STRANGERS: Final = "server/test_identification.py::"
_VENDED: Final = "server/test_vended_credentials.py::"
_VENDOR: Final = "server/test_vendor.py::"
_DECIDED: Final = "store/test_rights_of_histories.py::test_commands_are_decided_by_the_roles_of_their_moment"
_EACH_RIGHT: Final = f"{_RIGHTS}test_an_operation_needs_its_right"
_HIDDEN: Final = f"{_RIGHTS}test_a_hidden_table_is_answered_as_one_that_does_not_exist"
_OUTSIDE: Final = f"{_LOCATIONS}test_no_door_leads_out_of_the_location"
_OF_KEYS: Final = f"{_POLICIES}test_a_key_is_allowed_if_and_only_if_it_is_below_the_base_path"
_NO_SIBLINGS: Final = f"{_POLICIES}test_t41_siblings_with_the_same_beginning_are_not_allowed"
_NO_PATTERNS: Final = (
    f"{_POLICIES}test_t38_t39_t40_a_base_path_whose_characters_may_mean_something_gets_no_policy"
)
_NO_KEYS_OUTSIDE: Final = f"{_VENDED}test_t34_t36_a_location_that_is_not_allowed_any_more_gets_no_keys"
_OTHER_PLACES: Final = f"{_VENDED}test_tables_of_other_places_get_no_keys_and_a_reason"
_RENEWED: Final = f"{_VENDED}test_t46_keys_are_renewed_at_half_life_and_used_to_their_end_if_the_server_is_gone"
_NO_OTHER_OBJECTS: Final = f"{_VENDED}test_t41_the_store_refuses_everything_else_to_these_keys"
_NO_KEYS_SHOWN: Final = f"{_VENDED}test_t50_keys_are_in_no_log_no_event_and_no_cache"


class Attack(NamedTuple):
    """An attack, where it was met, and the tests that try it, or why it has no place here."""

    what: str
    source: str
    tests: tuple[str, ...] = ()
    no_place: str = ""


ATTACKS: Final = {
    # Tokens
    1: Attack(
        "the issuer in an unverified token chooses whose keys are fetched",
        "CVE-2026-27478 (Unity Catalog)",
        (
            f"{_OIDC}test_t1_the_issuer_of_an_unverified_token_is_not_asked",
            f"{_OIDC}test_t1_keys_are_not_fetched_from_where_an_issuer_redirects",
        ),
    ),
    2: Attack(
        "an issuer is compared by its beginning, or by a pattern",
        "CVE-2026-14336 (Eclipse PIA), unitycatalog #1690",
        (f"{_OIDC}test_t2_an_issuer_is_compared_as_an_exact_text",),
    ),
    3: Attack(
        "the issuer is not compared at all",
        "polaris #4753",
        (f"{_OIDC}test_t3_a_token_without_its_issuer_is_refused",),
    ),
    4: Attack(
        "a token for another service is accepted",
        "lakekeeper #607",
        (f"{_OIDC}test_t4_the_audience_must_be_this_server",),
    ),
    5: Attack(
        "an unknown critical header is ignored",
        "CVE-2026-32597 (PyJWT), CVE-2025-59420 (Authlib)",
        (
            f"{_OIDC}test_t5_an_unknown_critical_header_is_refused",
            f"{_OIDC}test_t5_critical_headers_of_the_wrong_type_are_refused",
        ),
    ),
    6: Attack(
        "a token brings the key that verifies it",
        "CVE-2026-27962 (Authlib)",
        (f"{_OIDC}test_t6_a_key_in_the_token_is_not_used",),
    ),
    7: Attack(
        "the algorithm in the header is allowed, that of the key is used",
        "CVE-2026-48523 (PyJWT)",
        (f"{_OIDC}test_t7_the_algorithm_of_a_key_must_be_that_of_the_token",),
    ),
    8: Attack(
        "no algorithm, a public key as a shared secret, or a key id that is a path",
        "CVE-2022-29217 (PyJWT)",
        (
            f"{_OIDC}test_t8_other_algorithms_are_refused",
            f"{_OIDC}test_t8_algorithms_that_the_issuer_does_not_use_are_refused",
            f"{_OIDC}test_t8_a_public_key_is_no_shared_secret",
            f"{_OIDC}test_t8_a_shared_secret_among_the_keys_is_not_used",
            f"{_OIDC}test_t8_a_strange_key_id_is_only_looked_up",
        ),
    ),
    9: Attack(
        "an encrypted token costs as much as it says",
        "CVE-2026-27932 (joserfc)",
        (f"{_OIDC}test_t9_encrypted_and_malformed_tokens_are_refused",),
    ),
    10: Attack(
        "a claim that a user can have makes it another kind of caller",
        "lakekeeper #647",
        (f"{_OIDC}test_t10_other_claims_do_not_change_the_subject",),
    ),
    11: Attack(
        "what one source of callers refuses is given to the next",
        "lakekeeper #864",
        (f"{_OIDC}test_t11_a_token_of_one_source_is_not_given_to_another",),
    ),
    12: Attack(
        "a signed request is sent again later",
        "GHSA-f2ph-gc9m-q55f (lakeFS)",
        no_place="requests are not signed: callers have bearer tokens, which TLS protects",
    ),
    13: Attack(
        "each request has the server fetch keys",
        "gravitino #10746",
        (f"{_OIDC}test_t13_keys_are_not_fetched_for_each_token",),
    ),
    14: Attack(
        "a revoked role is remembered",
        "lakekeeper #1830",
        (f"{_ATTACKS}test_t14_t15_revocations_beside_sixteen_readers_hide_what_they_name_and_nothing_else",),
    ),
    15: Attack(
        "rights that are read while they change deny what is allowed",
        "gravitino #12230, unitycatalog #1752",
        (
            f"{_ATTACKS}test_t14_t15_revocations_beside_sixteen_readers_hide_what_they_name_and_nothing_else",
            f"{_ATTACKS}test_t15_rights_that_could_not_be_read_deny_nothing_and_are_read_again",
            _DECIDED,
        ),
    ),
    # Checks that are missing, or of something else
    16: Attack(
        "a body that the check cannot read passes it",
        "unitycatalog #1494, #1777",
        (f"{_ATTACKS}test_t16_no_form_of_a_body_passes_the_check",),
    ),
    17: Attack(
        "a parameter of the path is sent in the query or the body too",
        "unitycatalog #1491",
        (f"{_ATTACKS}test_t17_a_name_beside_the_path_is_not_used",),
    ),
    18: Attack(
        "a second dialect has no checks",
        "unitycatalog #1429",
        (f"{_ATTACKS}test_t18_t32_iceberg_clients_need_the_same_rights",),
    ),
    19: Attack("a new operation has no check", "lakekeeper #1673", (_EACH_RIGHT, _HIDDEN)),
    20: Attack(
        "reading has no check",
        "unitycatalog #1604",
        (
            _EACH_RIGHT,
            _HIDDEN,
            f"{_RIGHTS}test_each_operation_of_the_document_is_declared_or_open",
            f"{_STRANGERS}test_each_route_of_the_application_needs_a_caller",
        ),
    ),
    21: Attack(
        "operations for the machinery have no check",
        "GHSA-m836-gxwq-j2pm (lakeFS)",
        (
            _EACH_RIGHT,
            "server/test_registry.py::test_every_note_has_a_right",
            "server/test_registry.py::test_every_query_that_takes_a_context_has_a_right",
            "server/test_registry.py::test_no_handler_passes_the_service_by",
        ),
    ),
    22: Attack(
        "a request for many objects is checked for the first one, or for what has them",
        "GHSA-28q9-9c3g-v3f9 (lakeFS)",
        (f"{_ATTACKS}test_t56_a_transaction_with_a_forbidden_table_completes_none", _DECIDED),
    ),
    23: Attack(
        "the right of another action is checked",
        "GHSA-fvv5-h29g-f6w5 (lakeFS)",
        (
            f"{_ATTACKS}test_t23_an_operation_needs_the_right_of_what_it_does",
            f"{_ATTACKS}test_t23_t57_readers_change_nothing_but_leases_of_readers",
            _EACH_RIGHT,
        ),
    ),
    24: Attack(
        "figures of the server are open",
        "GHSA-h238-5mwf-8xw8 (lakeFS)",
        (_FIGURES, f"{_STRANGERS}test_unknown_addresses_and_other_spellings_of_open_ones_need_a_caller"),
    ),
    25: Attack(
        "a rename is checked at one end",
        "lakekeeper #1346, gravitino #9200",
        (f"{_ATTACKS}test_t25_both_names_of_a_rename_need_the_right", _DECIDED),
    ),
    26: Attack(
        "maintenance is checked on another object",
        "lakekeeper #1347, #1376",
        (f"{_ATTACKS}test_t26_t27_neither_roles_on_like_names_nor_an_id_open_a_table",),
    ),
    27: Attack(
        "the id of an object is used without its name",
        "lakekeeper #1340",
        (f"{_ATTACKS}test_t26_t27_neither_roles_on_like_names_nor_an_id_open_a_table",),
    ),
    28: Attack(
        "lists, their lengths and their cursors tell of hidden objects",
        "gravitino #7882, unitycatalog #1344",
        (
            f"{_FILTERS}test_t28_no_list_names_a_hidden_table_or_its_namespace",
            f"{_FILTERS}test_t28_a_hidden_name_is_one_that_does_not_exist",
            f"{_FEEDS}test_pages_have_all_events_of_readable_tables_and_no_others",
            f"{_FEEDS}test_a_page_passes_over_hidden_events_whatever_its_limit",
            "store/test_readable.py::test_each_list_is_what_the_roles_let_a_caller_read",
            "store/test_readable.py::test_tables_that_a_caller_may_not_read_are_not_read_for_it",
        ),
    ),
    29: Attack(
        "rights of one tenant are used for another",
        "polaris #4992",
        no_place="a server has one metastore, and rights are in the database of that metastore",
    ),
    30: Attack(
        "a change is made before it is in the audit log",
        "lakekeeper #1924",
        (
            _DECIDED,
            "server/test_idempotency.py::"
            "test_a_command_whose_server_died_before_the_commit_takes_effect_once_by_retry",
        ),
    ),
    31: Attack(
        "a hook or template of a user sees the settings of the server",
        "GHSA-26hr-q2wp-rvc5 (lakeFS)",
        no_place="a server has neither hooks nor templates, and expands no text of a caller",
    ),
    32: Attack(
        "the question whether a table exists has no check",
        "gravitino #9180",
        (f"{_ATTACKS}test_t18_t32_iceberg_clients_need_the_same_rights", _HIDDEN),
    ),
    33: Attack(
        "a caller without rights on a namespace is answered otherwise than for a missing one",
        "lakekeeper #1117",
        ("server/test_denials.py::test_denied_reads_and_notes_are_recorded_once", _DECIDED),
    ),
    # Storage
    34: Attack(
        "a caller names the location for which it gets keys",
        "CVE-2026-42809 (Polaris)",
        (_NO_KEYS_OUTSIDE, _OUTSIDE),
    ),
    35: Attack(
        "a location that is changed later is not checked",
        "CVE-2026-42812 (Polaris)",
        (
            f"{_LOCATIONS}test_a_table_is_renamed_only_into_a_namespace_that_may_have_it",
            f"{_LOCATIONS}test_after_a_revocation_a_table_gets_no_other_storage_and_nobody_takes_its_folder_over",
        ),
    ),
    36: Attack(
        "locations that are allowed no more still get keys",
        "polaris #4860",
        (
            _NO_KEYS_OUTSIDE,
            "server/test_revoked_locations.py::"
            "test_a_deleter_deletes_nothing_until_the_location_is_allowed_again",
        ),
    ),
    37: Attack("the location within a file of metadata is trusted", "unitycatalog #1749", (_OUTSIDE,)),
    38: Attack("a star in a name is a wildcard of a policy", "CVE-2026-42810 (Polaris)", (_NO_PATTERNS,)),
    39: Attack(
        "a quote in a name ends the text of a condition",
        "CVE-2026-42811 (Polaris), unitycatalog #1721",
        (_NO_PATTERNS,),
    ),
    40: Attack("two dots lead out of the prefix of a policy", "polaris #4884", (_NO_PATTERNS, _OUTSIDE)),
    41: Attack(
        "folders whose names begin alike are one",
        "lakekeeper #780, #923, #1795, iceberg #17003",
        (
            _NO_SIBLINGS,
            _OUTSIDE,
            _NO_OTHER_OBJECTS,
            f"{_VENDOR}test_the_role_with_the_longest_location_is_taken_and_t41_none_of_a_sibling",
        ),
    ),
    42: Attack("a policy without a slash gives readers nothing", "nessie #12704", (_NO_SIBLINGS,)),
    43: Attack(
        "an empty prefix is the whole bucket",
        "SeaweedFS #10777",
        (_OF_KEYS, f"{_POLICIES}test_t43_a_bucket_as_a_whole_and_other_stores_get_no_policy"),
    ),
    44: Attack(
        "an empty policy gives all rights of the role",
        "Polaris' integration of AWS",
        (
            f"{_POLICIES}test_t45_a_policy_that_is_longer_than_sts_accepts_is_refused_before_it_is_sent",
            _NO_OTHER_OBJECTS,
        ),
    ),
    45: Attack(
        "a policy that is too large fails without advice",
        "lakekeeper #1857",
        (
            f"{_POLICIES}test_t45_a_policy_that_is_longer_than_sts_accepts_is_refused_before_it_is_sent",
            f"{_VENDOR}test_t45_a_policy_that_sts_finds_too_large_is_refused_with_advice",
        ),
    ),
    46: Attack(
        "a client keeps keys that have ended, because the table has not changed",
        "lakekeeper #1862",
        (_RENEWED, f"{_VENDED}test_iceberg_clients_get_keys_with_a_table_if_they_ask"),
    ),
    47: Attack(
        "an answer with keys has none",
        "lakekeeper #1923",
        (
            f"{_VENDOR}test_t47_an_answer_without_keys_is_no_fault_of_the_server",
            f"{_VENDED}test_iceberg_clients_get_the_keys_of_readers",
        ),
    ),
    48: Attack("keys are remembered for another access", "unitycatalog #1652", (_RENEWED,)),
    49: Attack(
        "a signer of requests signs those for other tables",
        "nessie #8654, #8739",
        no_place="a server signs no requests of clients: it gives keys under a policy",
    ),
    # Leaks
    50: Attack(
        "secrets are in logs, problems, outcomes, events or plans",
        "GHSA-4rgc-5g6r-2rjf (lakeFS), polaris #4772",
        (
            "test_secrets.py::test_a_secret_in_a_row_is_found_before_the_database_is_dropped",
            "server/test_tokens.py::test_a_token_opens_a_server_and_leaves_no_trace_but_its_id",
            f"{_STRANGERS}test_the_log_has_the_subject_and_whom_it_acts_for",
            f"{_STRANGERS}test_a_token_in_the_url_is_none",
            _NO_KEYS_SHOWN,
            f"{_VENDED}test_another_process_asks_with_its_own_token",
            "client/test_credentials.py::test_no_text_of_an_endpoint_has_the_token",
            "client/test_credentials.py::test_a_malformed_token_is_refused_without_its_text",
            "client/test_oauth.py::test_a_refusal_says_what_to_do_without_a_secret",
            "client/test_profiles.py::test_a_faulty_profile_is_refused_without_its_values",
            "spark/test_format.py::test_secrets_do_not_show_in_plans",
            "spark/test_secrets.py::test_the_event_log_hides_the_secrets_of_catalogs",
            "spark/test_secrets.py::test_nothing_that_spark_shows_has_a_secret_of_storage",
            "spark/test_token.py::test_tasks_have_the_token_of_the_variable_and_nothing_shows_it",
            "spark/test_token.py::"
            "test_tasks_read_the_files_that_options_name_and_nothing_shows_what_is_in_them",
            "spark/test_vended_credentials.py::test_tasks_ask_for_keys_and_nothing_shows_them",
        ),
    ),
    51: Attack(
        "text of a caller is run by a browser, or by a terminal",
        "GHSA-9phh-r37v-34wh (lakeFS), service-fabric-explorer #758",
        (
            "server/test_openapi.py::test_the_page_of_the_api_has_all_of_the_document_and_loads_nothing",
            "server/test_openapi.py::test_t51_no_answer_but_the_page_of_the_api_is_a_page",
            "client/test_terminal.py::"
            "test_t51_text_of_a_writer_is_not_executed_by_the_terminal_of_another_user",
            f"{_STRANGERS}test_t51_the_log_shows_the_path_of_a_stranger_and_no_terminal_executes_it",
        ),
    ),
    52: Attack(
        "limits are by an address that the caller names, or that callers share",
        "common",
        (
            "server/test_limits.py::"
            "test_a_request_beyond_the_rate_of_its_subject_is_answered_before_its_body_is_read",
            "server/test_limits.py::test_an_address_that_floods_a_server_with_tokens_keeps_no_known_caller_out",
            "server/test_limits.py::test_streams_are_bounded_by_subject_and_not_by_address",
        ),
    ),
    # Of this server alone
    53: Attack(
        "an idempotency key of another caller gives its answer, or shows that it was used",
        "our own",
        (
            f"{_FILTERS}test_t53_keys_and_outcomes_belong_to_their_subject",
            f"{_FILTERS}test_t53_an_outcome_does_not_tell_the_present_name_of_a_table_that_is_hidden_now",
        ),
    ),
    54: Attack(
        "a stream outlives the token or the role of its caller, or tells of hidden events",
        "our own",
        (
            f"{_FEEDS}test_t54_a_follower_beside_hidden_events_misses_nothing_and_learns_nothing",
            f"{_FEEDS}test_t54_a_stream_of_a_table_ends_soon_after_the_role_is_revoked",
            f"{_FEEDS}test_t54_a_stream_of_all_tables_narrows_soon_after_a_role_is_revoked",
            f"{_FEEDS}test_t54_a_stream_of_a_table_ends_when_its_new_name_is_hidden",
            "server/test_tokens.py::test_a_stream_of_events_ends_when_its_token_is_revoked",
            "server/test_revocation.py::test_an_arrow_stream_ends_when_its_token_is_revoked",
            f"{_STRANGERS}test_a_stream_whose_caller_is_no_longer_known_is_cut_off",
        ),
    ),
    55: Attack(
        "a command that waited is executed although its caller has lost its rights meanwhile",
        "our own",
        (
            "server/test_revocation.py::test_a_revocation_ends_commands_that_wait",
            f"{_ATTACKS}test_t55_a_token_of_an_issuer_that_ended_while_its_command_waited_is_refused",
        ),
    ),
    56: Attack(
        "a transaction with one forbidden table changes the others",
        "our own",
        (f"{_ATTACKS}test_t56_a_transaction_with_a_forbidden_table_completes_none", _DECIDED),
    ),
    57: Attack(
        "a reader rolls back, releases, sweeps, publishes, opens a stream, or ends the lease of another",
        "our own",
        (
            f"{_ATTACKS}test_t23_t57_readers_change_nothing_but_leases_of_readers",
            f"{_ATTACKS}test_a_reader_does_not_learn_the_lease_of_another_one",
            f"{_ATTACKS}test_a_denied_clean_does_not_touch_the_leases_of_readers",
            _EACH_RIGHT,
        ),
    ),
    58: Attack(
        "a caller names another actor",
        "our own",
        (
            f"{_STRANGERS}test_another_actor_needs_the_right_to_act_for_others",
            "server/test_denials.py::test_t58_another_actor_that_a_caller_may_not_name_is_a_denial",
            f"{_STRANGERS}test_the_name_after_a_subject_cannot_be_taken_for_part_of_it",
            f"{_STRANGERS}test_the_log_has_the_subject_and_whom_it_acts_for",
        ),
    ),
    59: Attack(
        "another spelling of a name leads to the table past the check",
        "our own",
        (
            f"{_FEEDS}test_t59_no_spelling_of_a_hidden_name_is_answered_otherwise_than_a_missing_one",
            f"{_ATTACKS}test_t59_no_spelling_of_a_name_leads_to_a_table",
            f"{_STRANGERS}test_unknown_addresses_and_other_spellings_of_open_ones_need_a_caller",
        ),
    ),
    60: Attack(
        "a role on a table fits a later table of the same name",
        "our own",
        (
            f"{_FEEDS}test_t60_a_grant_on_a_table_shows_no_event_of_a_new_table_of_its_name",
            f"{_RIGHTS}test_a_grant_on_a_table_follows_it_and_does_not_fit_its_successor",
            f"{_VENDED}test_keys_need_the_right_of_their_access_on_this_table",
            _DECIDED,
        ),
    ),
    61: Attack(
        "a base path at, above or below that of others, by a link, or in another store",
        "our own",
        (
            f"{_FILTERS}test_a_base_path_of_a_hidden_table_is_taken_without_a_name",
            f"{_FILTERS}test_a_dropped_table_gives_its_base_path_only_to_an_admin_of_its_name",
            _OUTSIDE,
            "server/test_base_paths.py::test_a_base_path_is_taken_in_every_spelling",
            "server/test_revoked_locations.py::"
            "test_a_link_that_replaced_a_folder_later_is_not_followed_out_of_the_location",
            "server/test_deleter.py::test_credentials_are_not_sent_to_an_endpoint_that_only_a_table_names",
            _OTHER_PLACES,
        ),
    ),
    62: Attack(
        "figures and documents are open to strangers",
        "our own",
        (
            _FIGURES,
            f"{_STRANGERS}test_open_addresses_are_open_to_reads_alone",
            f"{_STRANGERS}test_unknown_addresses_and_other_spellings_of_open_ones_need_a_caller",
        ),
    ),
}
