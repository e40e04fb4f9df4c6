/* System V and POSIX ipc of the host or of another sandbox, and keys. */
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <mqueue.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/msg.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "escapes.h"

#define HUGE_PAGE (2u << 20)

/* KEY SECRET */
static int shared_memory(char **arguments)
{
    int id = shmget((key_t)strtol(arguments[0], NULL, 10), 0, 0);
    if (id < 0)
        return -errno;
    const char *at = shmat(id, NULL, SHM_RDONLY);
    if ((intptr_t)at == -1)
        return -errno;
    return strcmp(at, arguments[1]) == 0 ? 0 : TO_NO_AVAIL;
}

/* From the machine's pool of huge pages, which no memory limit counts; empty or not, it is asked.
 */
static int shared_huge_pages(char **arguments)
{
    (void)arguments;
    return escapes_past(shmget(IPC_PRIVATE, HUGE_PAGE, IPC_CREAT | SHM_HUGETLB | 0600), ENOMEM);
}

/* NAME SECRET: put back what is taken. */
static int message_queue(char **arguments)
{
    char bytes[8192];
    mqd_t queue = mq_open(arguments[0], O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (queue == (mqd_t)-1)
        return -errno;
    ssize_t n = mq_receive(queue, bytes, sizeof(bytes), NULL);
    if (n < 0)
        return -errno;
    (void)mq_send(queue, bytes, (size_t)n, 0);
    return (size_t)n == strlen(arguments[1]) && memcmp(bytes, arguments[1], (size_t)n) == 0
               ? 0
               : TO_NO_AVAIL;
}

/* KEY: know of it, without taking a message. */
static int system_v_queue(char **arguments)
{
    struct msqid_ds status;
    int id = msgget((key_t)strtol(arguments[0], NULL, 10), 0);
    return id < 0 ? -errno : escapes_result(msgctl(id, IPC_STAT, &status));
}

/* SECRET: what whoever started the launcher has in its session keyring. */
static int session_key(char **arguments)
{
    char bytes[64] = "";
    long key =
        syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_SESSION_KEYRING, "user", "osb-victim", 0);
    if (key < 0 || syscall(SYS_keyctl, KEYCTL_READ, key, bytes, sizeof(bytes) - 1) < 0)
        return -errno;
    return strcmp(bytes, arguments[0]) == 0 ? 0 : TO_NO_AVAIL;
}

const struct escape escapes_of_ipc[] = {
    {"shared_huge_pages", 0, shared_huge_pages},
    {"shared_memory", 2, shared_memory},
    {"message_queue", 2, message_queue},
    {"system_v_queue", 1, system_v_queue},
    {"session_key", 1, session_key},
    {NULL, 0, NULL},
};
