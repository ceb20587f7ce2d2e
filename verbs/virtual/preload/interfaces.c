/* The network interfaces of a host in simulated time: the loopback, and the one that its device is on. */
#define _GNU_SOURCE
#include "turns.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

/* An address of an interface in one allocation with what it points to: the C library's freeifaddrs frees the first of them. */
struct interface_address {
	struct ifaddrs head;
	char name[IFNAMSIZ];
	struct sockaddr_in addr, mask, to;
};

static void fill(struct interface_address *e, const char *name, unsigned flags, const void *addr, uint32_t mask)
{
	struct sockaddr_in in = {.sin_family = AF_INET};

	strcpy(e->name, name);
	e->addr = e->mask = e->to = in;
	memcpy(&e->addr.sin_addr, addr, sizeof e->addr.sin_addr);
	e->mask.sin_addr.s_addr = htonl(mask);
	e->to.sin_addr.s_addr = flags & IFF_BROADCAST ? e->addr.sin_addr.s_addr | ~e->mask.sin_addr.s_addr : e->addr.sin_addr.s_addr;
	e->head = (struct ifaddrs){
		.ifa_name = e->name, .ifa_flags = flags | IFF_UP | IFF_RUNNING,
		.ifa_addr = (void *)&e->addr, .ifa_netmask = (void *)&e->mask, .ifa_broadaddr = (void *)&e->to,
	};
}

EXPORT int getifaddrs(struct ifaddrs **found)
{
	static const unsigned char loopback[] = {127, 0, 0, 1};
	struct interface_address *all;

	if (!simulated())
		return NEXT(getifaddrs)(found);
	all = calloc(2, sizeof *all);
	if (!all)
		return -1;
	fill(&all[0], "lo", IFF_LOOPBACK, loopback, 0xff000000);
	fill(&all[1], "eth0", IFF_BROADCAST | IFF_MULTICAST, welcome.addr + 12, 0xff000000);
	all[0].head.ifa_next = &all[1].head;
	*found = &all[0].head;
	return 0;
}
