/*
 * A network between namespaces that loses, delays, reorders and rejects packets.
 *
 *     network NAME:ADDRESS...      one host for each argument, such as server:10.77.0.1
 *
 * Each host is a TUN device in the network namespace NAME, which must exist, with this address. The program passes IP
 * packets from one device to the other. Lines on standard input set what happens to packets between two hosts, in both
 * directions:
 *
 *     link A B delay=MS jitter=MS loss=PERCENT        jitter reorders packets
 *     cut A B                                         nothing passes
 *     reset A B                                       each TCP packet is answered with a reset
 *
 * After each line that was carried out it prints `ok`. It ends at the end of the input.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { MAX_HOSTS = 8, MAX_PACKET = 2048, MAX_QUEUE = 1 << 16, MTU = 1500 };

struct host {
    char name[32];
    in_addr_t address;
    int fd;
};

enum kind { PASS, CUT, RESET };

struct link {
    enum kind kind;
    double delay_ms, jitter_ms, loss_percent;
};

struct packet {
    double due_ms;
    unsigned long order;
    int to, len;
    unsigned char bytes[MAX_PACKET];
};

static struct host hosts[MAX_HOSTS];
static int host_count;
static struct link links[MAX_HOSTS][MAX_HOSTS];
/* A heap of packets on their way, the next due one first. */
static struct packet *queue[MAX_QUEUE];
static int queued;
static unsigned long next_order;

static double now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

/* Opens the device of a host inside its namespace. */
static void open_host(struct host *host) {
    char path[64], command[256], text[INET_ADDRSTRLEN];
    int own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    snprintf(path, sizeof path, "/run/netns/%s", host->name);
    int theirs = open(path, O_RDONLY | O_CLOEXEC);
    if (own < 0 || theirs < 0 || setns(theirs, CLONE_NEWNET) < 0)
        err(1, "cannot enter the network namespace %s", host->name);
    struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
    strcpy(request.ifr_name, "net0");
    host->fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (host->fd < 0 || ioctl(host->fd, TUNSETIFF, &request) < 0)
        err(1, "cannot make a TUN device in %s", host->name);
    inet_ntop(AF_INET, &host->address, text, sizeof text);
    snprintf(command, sizeof command,
             "ip addr add %s/24 dev net0 && ip link set net0 mtu %d txqueuelen 4096 up && ip link set lo up",
             text, MTU);
    if (system(command) != 0)
        errx(1, "cannot configure the device in %s", host->name);
    if (setns(own, CLONE_NEWNET) < 0)
        err(1, "cannot return to the own network namespace");
    close(own);
    close(theirs);
}

static int is_before(const struct packet *one, const struct packet *other) {
    if (one->due_ms != other->due_ms)
        return one->due_ms < other->due_ms;
    return one->order < other->order;
}

static void push(struct packet *packet) {
    int at = queued++;
    while (at > 0 && is_before(packet, queue[(at - 1) / 2])) {
        queue[at] = queue[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    queue[at] = packet;
}

static struct packet *pop(void) {
    struct packet *first = queue[0], *last = queue[--queued];
    int at = 0;
    for (;;) {
        int child = 2 * at + 1;
        if (child >= queued)
            break;
        if (child + 1 < queued && is_before(queue[child + 1], queue[child]))
            child++;
        if (!is_before(queue[child], last))
            break;
        queue[at] = queue[child];
        at = child;
    }
    queue[at] = last;
    return first;
}

static uint16_t checksum(const void *bytes, size_t len, uint32_t sum) {
    const uint16_t *word = bytes;
    for (; len > 1; len -= 2)
        sum += *word++;
    if (len)
        sum += *(const uint8_t *)word;
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)~sum;
}

/* Writes the reset that answers a TCP packet. Returns its length, or 0 if the packet needs none. */
static int make_reset(const unsigned char *bytes, int len, unsigned char *out) {
    const struct iphdr *ip = (const void *)bytes;
    int header = ip->ihl * 4;
    if (ip->protocol != IPPROTO_TCP || len < header + (int)sizeof(struct tcphdr))
        return 0;
    const struct tcphdr *tcp = (const void *)(bytes + header);
    if (tcp->rst)
        return 0;
    struct { struct iphdr ip; struct tcphdr tcp; } answer = {0};
    answer.ip = (struct iphdr){.version = 4, .ihl = 5, .ttl = 64, .protocol = IPPROTO_TCP};
    answer.ip.tot_len = htons(sizeof answer);
    answer.ip.saddr = ip->daddr;
    answer.ip.daddr = ip->saddr;
    answer.ip.check = checksum(&answer.ip, sizeof answer.ip, 0);
    answer.tcp.source = tcp->dest;
    answer.tcp.dest = tcp->source;
    answer.tcp.doff = 5;
    answer.tcp.rst = answer.tcp.ack = 1;
    answer.tcp.seq = tcp->ack ? tcp->ack_seq : 0;
    uint32_t payload = len - header - tcp->doff * 4;
    answer.tcp.ack_seq = htonl(ntohl(tcp->seq) + payload + tcp->syn + tcp->fin);
    struct { in_addr_t from, to; uint8_t zero, protocol; uint16_t len; } pseudo = {
        answer.ip.saddr, answer.ip.daddr, 0, IPPROTO_TCP, htons(sizeof answer.tcp)};
    uint32_t sum = (uint16_t)~checksum(&pseudo, sizeof pseudo, 0);
    answer.tcp.check = checksum(&answer.tcp, sizeof answer.tcp, sum);
    memcpy(out, &answer, sizeof answer);
    return sizeof answer;
}

/* Decides what happens to one packet. */
static void route(int from, const unsigned char *bytes, int len) {
    const struct iphdr *ip = (const void *)bytes;
    if (len < (int)sizeof *ip || ip->version != 4)
        return;
    int to = 0;
    while (to < host_count && hosts[to].address != ip->daddr)
        to++;
    if (to == host_count || to == from)
        return;
    const struct link *link = &links[from][to];
    if (link->kind == CUT || drand48() * 100 < link->loss_percent)
        return;
    if (link->kind == RESET) {
        unsigned char answer[64];
        int answer_len = make_reset(bytes, len, answer);
        if (answer_len > 0 && write(hosts[from].fd, answer, answer_len) < 0 && errno != EAGAIN)
            err(1, "cannot write to %s", hosts[from].name);
        return;
    }
    double delay = link->delay_ms + drand48() * link->jitter_ms;
    if (delay == 0) {
        if (write(hosts[to].fd, bytes, len) < 0 && errno != EAGAIN)
            err(1, "cannot write to %s", hosts[to].name);
        return;
    }
    struct packet *packet = queued < MAX_QUEUE ? malloc(sizeof *packet) : NULL;
    if (packet == NULL)
        return; /* Lost, as in a router whose queue is full. */
    *packet = (struct packet){.due_ms = now_ms() + delay, .order = next_order++, .to = to, .len = len};
    memcpy(packet->bytes, bytes, len);
    push(packet);
}

static void deliver(void) {
    while (queued > 0 && queue[0]->due_ms <= now_ms()) {
        struct packet *packet = pop();
        if (write(hosts[packet->to].fd, packet->bytes, packet->len) < 0 && errno != EAGAIN)
            err(1, "cannot write to %s", hosts[packet->to].name);
        free(packet);
    }
}

static int host_named(const char *name) {
    for (int at = 0; at < host_count; at++)
        if (strcmp(hosts[at].name, name) == 0)
            return at;
    errx(1, "there is no host %s", name);
}

static void obey(char *line) {
    char verb[16], one[32], other[32];
    int used = 0;
    if (sscanf(line, "%15s %31s %31s%n", verb, one, other, &used) < 3)
        errx(1, "cannot read: %s", line);
    struct link link = {.kind = PASS};
    if (strcmp(verb, "cut") == 0)
        link.kind = CUT;
    else if (strcmp(verb, "reset") == 0)
        link.kind = RESET;
    else if (strcmp(verb, "link") != 0)
        errx(1, "expected link, cut or reset: %s", line);
    for (char *word = strtok(line + used, " \n"); word; word = strtok(NULL, " \n"))
        if (sscanf(word, "delay=%lf", &link.delay_ms) + sscanf(word, "jitter=%lf", &link.jitter_ms)
            + sscanf(word, "loss=%lf", &link.loss_percent) < 1)
            errx(1, "cannot read: %s", word);
    int a = host_named(one), b = host_named(other);
    links[a][b] = links[b][a] = link;
    puts("ok");
    fflush(stdout);
}

int main(int argc, char **argv) {
    if (argc < 3 || argc > MAX_HOSTS + 1)
        errx(2, "usage: network NAME:ADDRESS NAME:ADDRESS...");
    for (host_count = 0; host_count < argc - 1; host_count++) {
        struct host *host = &hosts[host_count];
        char text[INET_ADDRSTRLEN];
        if (sscanf(argv[host_count + 1], "%31[^:]:%15s", host->name, text) != 2
            || inet_pton(AF_INET, text, &host->address) != 1)
            errx(2, "expected NAME:ADDRESS, found %s", argv[host_count + 1]);
        open_host(host);
    }
    srand48(getpid());
    struct pollfd fds[MAX_HOSTS + 1];
    for (int at = 0; at < host_count; at++)
        fds[at] = (struct pollfd){.fd = hosts[at].fd, .events = POLLIN};
    fds[host_count] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    puts("ok");
    fflush(stdout);
    for (;;) {
        double wait = queued > 0 ? queue[0]->due_ms - now_ms() : -1;
        struct timespec limit = {0, wait > 0 ? (long)(wait * 1e6) % 1000000000 : 0};
        limit.tv_sec = wait > 0 ? (time_t)(wait / 1e3) : 0;
        if (ppoll(fds, host_count + 1, queued > 0 ? &limit : NULL, NULL) < 0 && errno != EINTR)
            err(1, "cannot wait");
        for (int at = 0; at < host_count; at++) {
            unsigned char bytes[MAX_PACKET];
            for (int round = 0; round < 64; round++) {
                ssize_t len = read(hosts[at].fd, bytes, sizeof bytes);
                if (len <= 0)
                    break;
                route(at, bytes, (int)len);
            }
        }
        deliver();
        if (fds[host_count].revents) {
            char line[256];
            if (!fgets(line, sizeof line, stdin))
                return 0;
            obey(line);
        }
    }
}
