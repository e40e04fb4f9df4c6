/* The report for people and as JSON. Paths in it are whatever somebody called a directory, so
 * nothing of a text reaches the output unescaped. */
#include <stdint.h>
#include <string.h>

#include "base/str.h"
#include "launcher/check.h"

#define NAME_WIDTH 16

static const char *const found_names[] = {
    [CHECK_UNKNOWN] = "unknown",
    [CHECK_NO] = "no",
    [CHECK_PARTLY] = "partly",
    [CHECK_YES] = "yes",
};

static bool is_lacking(const struct check_row *row, enum check_weight weight)
{
    return row->weight == weight && row->result.found != CHECK_YES;
}

/* Something needed that is there in part still carries sandboxes. */
bool check_can_run(const struct check_report *report)
{
    for (size_t i = 0; i < report->count; i++) {
        if (is_lacking(&report->rows[i], CHECK_NEEDED) &&
            report->rows[i].result.found != CHECK_PARTLY)
            return false;
    }
    return true;
}

bool check_has_everything(const struct check_report *report)
{
    for (size_t i = 0; i < report->count; i++) {
        if (is_lacking(&report->rows[i], CHECK_NEEDED) ||
            is_lacking(&report->rows[i], CHECK_FEATURE))
            return false;
    }
    return true;
}

/* For a terminal: no control characters, no broken UTF-8. */
static void add_plain(struct buf *out, const char *text)
{
    size_t left = strlen(text);
    while (left > 0) {
        uint32_t code = 0;
        size_t step = str_utf8_next(text, left, &code);
        bool shown = step > 0 && code >= 0x20 && !(code >= 0x7f && code < 0xa0);
        if (shown)
            (void)buf_add(out, text, step);
        else
            (void)buf_add_char(out, '?');
        step = step > 0 ? step : 1;
        text += step;
        left -= step;
    }
}

static void add_names(const struct check_report *report, enum check_weight weight, struct buf *out)
{
    const char *before = " ";
    for (size_t i = 0; i < report->count; i++) {
        if (is_lacking(&report->rows[i], weight)) {
            (void)buf_printf(out, "%s%s", before, report->rows[i].name);
            before = ", ";
        }
    }
    (void)buf_add_char(out, '\n');
}

static void add_verdict(const struct check_report *report, struct buf *out)
{
    if (check_has_everything(report)) {
        (void)buf_add_str(out, "Sandboxes can run here, with everything.\n");
    } else if (check_can_run(report)) {
        (void)buf_add_str(out, "Sandboxes can run here. Off, or on in part:");
        add_names(report, CHECK_FEATURE, out);
    } else {
        (void)buf_add_str(out, "Sandboxes cannot run here. Needed:");
        add_names(report, CHECK_NEEDED, out);
    }
}

/* What is as it should be takes one line. */
static void add_row(const struct check_row *row, struct buf *out)
{
    const struct check_result *result = &row->result;
    (void)buf_printf(out, "  %-7s %-*s ", found_names[result->found], NAME_WIDTH, row->name);
    add_plain(out, result->effect);
    if (result->detail[0] != '\0') {
        (void)buf_add_str(out, " (");
        add_plain(out, result->detail);
        (void)buf_add_str(out, ")");
    }
    if (result->advice[0] != '\0') {
        (void)buf_printf(out, "\n%*sto do: ", NAME_WIDTH + 11, "");
        add_plain(out, result->advice);
    }
    (void)buf_add_char(out, '\n');
}

void check_print_people(const struct check_report *report, struct buf *out)
{
    const char *section = "";
    for (size_t i = 0; i < report->count; i++) {
        if (!str_equal(section, report->rows[i].section))
            (void)buf_printf(out, "%s%s\n", i == 0 ? "" : "\n", report->rows[i].section);
        section = report->rows[i].section;
        add_row(&report->rows[i], out);
    }
    (void)buf_add_char(out, '\n');
    add_verdict(report, out);
}

static void add_json_string(struct buf *out, const char *text)
{
    if (text == NULL) {
        (void)buf_add_str(out, "null");
        return;
    }
    size_t left = strlen(text);
    (void)buf_add_char(out, '"');
    while (left > 0) {
        uint32_t code = 0;
        size_t step = str_utf8_next(text, left, &code);
        if (step == 0)
            (void)buf_add_str(out, "\\ufffd");
        else if (code == '"' || code == '\\')
            (void)buf_printf(out, "\\%c", (char)code);
        else if (code < 0x20 || code == 0x7f)
            (void)buf_printf(out, "\\u%04x", (unsigned)code);
        else
            (void)buf_add(out, text, step);
        step = step > 0 ? step : 1;
        text += step;
        left -= step;
    }
    (void)buf_add_char(out, '"');
}

static void add_json_member(struct buf *out, const char *key, const char *text, const char *after)
{
    (void)buf_printf(out, "\"%s\": ", key);
    add_json_string(out, text);
    (void)buf_add_str(out, after);
}

static void add_json_names(const struct check_report *report, const char *key,
                           enum check_weight weight, struct buf *out)
{
    const char *before = "";
    (void)buf_printf(out, "  \"%s\": [", key);
    for (size_t i = 0; i < report->count; i++) {
        if (is_lacking(&report->rows[i], weight)) {
            (void)buf_add_str(out, before);
            add_json_string(out, report->rows[i].name);
            before = ", ";
        }
    }
    (void)buf_add_str(out, "],\n");
}

static void add_json_row(const struct check_row *row, struct buf *out)
{
    static const char *const weights[] = {
        [CHECK_NEEDED] = "needed", [CHECK_FEATURE] = "feature", [CHECK_NOTE] = "note"};
    const struct check_result *result = &row->result;
    (void)buf_add_str(out, "    {");
    add_json_member(out, "section", row->section, ", ");
    add_json_member(out, "name", row->name, ", ");
    add_json_member(out, "weight", weights[row->weight], ", ");
    add_json_member(out, "found", found_names[result->found], ",\n     ");
    add_json_member(out, "detail", result->detail, ",\n     ");
    add_json_member(out, "effect", result->effect, ",\n     ");
    add_json_member(out, "advice", result->advice[0] != '\0' ? result->advice : NULL, "}");
}

void check_print_json(const struct check_report *report, struct buf *out)
{
    (void)buf_add_str(out, "{\n  ");
    add_json_member(out, "state", report->state_dir, ",\n  ");
    add_json_member(out, "cgroup_parent", report->cgroup_parent, ",\n  ");
    (void)buf_printf(out, "\"can_run\": %s,\n", check_can_run(report) ? "true" : "false");
    (void)buf_printf(out, "  \"everything\": %s,\n",
                     check_has_everything(report) ? "true" : "false");
    add_json_names(report, "missing", CHECK_NEEDED, out);
    add_json_names(report, "off", CHECK_FEATURE, out);
    (void)buf_add_str(out, "  \"results\": [\n");
    for (size_t i = 0; i < report->count; i++) {
        add_json_row(&report->rows[i], out);
        (void)buf_add_str(out, i + 1 < report->count ? ",\n" : "\n");
    }
    (void)buf_add_str(out, "  ]\n}\n");
}
