#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "launcher/firewall.h"

#define PREFIX "o0badcafe-"

static struct firewall nft(const char *text)
{
    struct firewall found;
    firewall_read_nft(text, PREFIX, &found);
    return found;
}

static struct firewall iptables(const char *text)
{
    struct firewall found;
    firewall_read_iptables(text, PREFIX, &found);
    return found;
}

#define DOCKER                                                              \
    "table ip filter {\n"                                                   \
    "\tchain DOCKER-USER {\n"                                               \
    "%s"                                                                    \
    "\t\tcounter return\n"                                                  \
    "\t}\n\n"                                                               \
    "\tchain FORWARD {\n"                                                   \
    "\t\ttype filter hook forward priority filter; policy drop;\n"          \
    "\t\tcounter jump DOCKER-USER\n"                                        \
    "\t\toifname \"docker0\" ct state related,established counter accept\n" \
    "\t}\n"                                                                 \
    "}\n"

static struct firewall docker(const char *rules)
{
    char text[4096];
    snprintf(text, sizeof(text), DOCKER, rules);
    return nft(text);
}

static void test_docker(void **state)
{
    (void)state;
    struct firewall found = docker("");
    assert_true(found.drops);
    assert_int_equal(found.manager, FIREWALL_DOCKER);
    assert_string_equal(found.chain, "FORWARD");
    assert_string_equal(found.family, "ip");
    assert_string_equal(found.table, "filter");
    const char *out = "\t\tiifname \"" PREFIX "*\" oifname \"eth0\" counter accept\n";
    assert_true(docker(out).drops); /* and the answers? */
    char both[512];
    snprintf(both, sizeof(both), "%s%s", out,
             "\t\toifname \"" PREFIX "*\" ct state related,established counter accept\n");
    assert_false(docker(both).drops);
    /* of others, and of a part of ours */
    assert_true(
        docker("\t\tiifname \"o11111111-*\" accept\n\t\toifname \"o11111111-*\" accept\n").drops);
    assert_true(
        docker("\t\tiifname \"" PREFIX "0001\" accept\n\t\toifname \"" PREFIX "0001\" accept\n")
            .drops);
    assert_false(docker("\t\tiifname \"o*\" accept\n\t\toifname \"o*\" accept\n").drops);
}

static void test_ones_that_let_through(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "table inet x {\n\tchain f {\n\t\ttype filter hook forward priority 0; policy accept;\n"
        "\t\tip saddr 10.0.0.1 drop\n\t}\n}\n",
        "table inet x {\n\tchain i {\n\t\ttype filter hook input priority 0; policy "
        "drop;\n\t}\n}\n",
        "table ip6 x {\n\tchain f {\n\t\ttype filter hook forward priority 0; policy "
        "drop;\n\t}\n}\n",
        "table inet x {\n\tchain f {\n\t\ttype filter hook forward priority 0; policy drop;\n"
        "\t\tcounter accept\n\t}\n}\n",
        /* "drop" in a chain that is not at the hook */
        "table inet x {\n\tchain g {\n\t\tdrop\n\t}\n\tchain f {\n"
        "\t\ttype filter hook forward priority 0; policy accept;\n"
        "\t\tip saddr 10.0.0.1 jump g\n\t}\n}\n",
    };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        assert_false(nft(texts[i]).drops);
}

static void test_managers(void **state)
{
    (void)state;
    struct firewall found =
        nft("table inet firewalld {\n\tchain filter_FORWARD {\n"
            "\t\ttype filter hook forward priority filter + 10; policy accept;\n"
            "\t\tct state established,related accept\n"
            "\t\treject with icmpx admin-prohibited\n\t}\n}\n");
    assert_true(found.drops);
    assert_int_equal(found.manager, FIREWALL_FIREWALLD);
    found = nft("table ip filter {\n\tchain ufw-before-forward {\n"
                "\t\tct state related,established counter accept\n\t}\n\tchain FORWARD {\n"
                "\t\ttype filter hook forward priority filter; policy drop;\n"
                "\t\tcounter jump ufw-before-forward\n\t}\n}\n"
                "table inet strict {\n\tchain f {\n"
                "\t\ttype filter hook forward priority 5; policy drop;\n"
                "\t\tiifname \"eth7\" accept comment \"known\"\n\t}\n}\n");
    assert_true(found.drops);
    assert_int_equal(found.manager, FIREWALL_UFW);
    assert_int_equal(found.others, 1);
}

static void test_iptables(void **state)
{
    (void)state;
    struct firewall found = iptables("*filter\n:INPUT DROP [0:0]\n:FORWARD DROP [0:0]\n"
                                     ":OUTPUT ACCEPT [0:0]\nCOMMIT\n");
    assert_true(found.drops);
    assert_int_equal(found.manager, FIREWALL_IPTABLES);
    assert_string_equal(found.chain, "FORWARD");
    assert_false(iptables("*filter\n:INPUT DROP [0:0]\n:FORWARD ACCEPT [0:0]\n"
                          "-A FORWARD -s 10.0.0.1/32 -j DROP\nCOMMIT\n")
                     .drops);
    assert_true(iptables("*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -j DROP\nCOMMIT\n").drops);
    assert_false(iptables("*filter\n:FORWARD DROP [0:0]\n:DOCKER-USER - [0:0]\n"
                          "-A DOCKER-USER -i " PREFIX "+ -o eth0 -j ACCEPT\n"
                          "-A DOCKER-USER -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n")
                     .drops);
    found = iptables(":FORWARD DROP [0:0]\n:DOCKER-USER - [0:0]\n"
                     "-A FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n"
                     "-A DOCKER-USER -i " PREFIX "+ -j ACCEPT\n");
    assert_true(found.drops);
    assert_int_equal(found.manager, FIREWALL_DOCKER);
}

static void test_advice(void **state)
{
    (void)state;
    static const struct {
        enum firewall_manager manager;
        const char *said;
    } cases[] = {
        {FIREWALL_NFT, "nft 'insert rule inet t c iifname \"" PREFIX "*\" oifname \"eth0\" accept"},
        {FIREWALL_IPTABLES, "iptables -I c -i " PREFIX "+ -o eth0 -j ACCEPT && "},
        {FIREWALL_DOCKER, "iptables -I DOCKER-USER -i " PREFIX "+ -o eth0 -j ACCEPT && "},
        {FIREWALL_UFW, "ufw route allow in on " PREFIX "+ out on eth0"},
        {FIREWALL_FIREWALLD, "firewall-cmd --permanent --zone=trusted --add-interface=" PREFIX "+"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[256];
        const struct firewall firewall = {.drops = true,
                                          .manager = cases[i].manager,
                                          .family = "inet",
                                          .table = "t",
                                          .chain = "c"};
        firewall_advice(&firewall, PREFIX, "eth0", text, sizeof(text));
        assert_memory_equal(text, cases[i].said, strlen(cases[i].said));
        assert_true(strlen(firewall_name(&firewall)) > 2);
    }
}

/* Long lines and long names are cut or left out, not believed. */
static void test_bounds(void **state)
{
    (void)state;
    static char text[1 << 16];
    snprintf(text, sizeof(text), "table ip %0*d", (int)sizeof(text) - 100, 7);
    assert_false(nft(text).drops);
    assert_false(iptables(text).drops);
    for (size_t i = 100; i < strlen(text); i += 100)
        text[i] = '\n';
    assert_false(nft(text).drops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_docker),   cmocka_unit_test(test_ones_that_let_through),
        cmocka_unit_test(test_managers), cmocka_unit_test(test_iptables),
        cmocka_unit_test(test_advice),   cmocka_unit_test(test_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
