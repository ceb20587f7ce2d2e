/*
 * Takes telemetry tags off the frames that arrive at a network interface, puts them
 * on those that leave, reflects them, and answers probes: at the interface's TC
 * hooks. Package wiretag is the Go side, and says what a tag is: the program itself
 * knows an EtherType, a length, and which bits are the value.
 *
 * The headers are those of IBA volume 1 (9.2 to 9.5) and its annex A17.
 */
#include "../../internal/watcher/bpf/kernel.h"

enum {
	TYPE_OFFSET = 12, /* of the EtherType */
	ETHER_HEADER = 14,
	UDP_CHECKSUM = 6,
	MAX_QUADS = 4, /* of 4 bytes that two tags take at most */
};

/* More opcodes: of the reliable connection, and of those left to manufacturers. */
enum {
	LAST_OF_RC = 23,
	PROBE = 0xc0, /* telemetry.ProbeOpcode */
};

/* A tag's body is what follows its EtherType, as an integer. */
enum { PRESENT = 63 }; /* the bit that says that there is one */
#define HAS (1ull << PRESENT)

/* What a tag looks like: see shape in the Go side. */
volatile const u32 tag_type = 0x88b6;
volatile const u32 tag_quads = 1;          /* 4 bytes each: 1 or 2 */
volatile const u64 tag_value = 0x7fff;     /* bits of the body that are the value: the larger, the longer the delay */
volatile const u64 signal_mask = 0x8000;   /* and those that say of what, */
volatile const u64 signal_forward = 0;     /* which are these of a delay */
volatile const u64 signal_echo = 0x8000;   /* and these of one on its way back */

/* What connections want. */
enum { TAGS = 1, REPORTS = 2 };

struct conn {
	u32 id; /* its index, and a generation above */
	u32 flags;
	u32 asked; /* the last request had a tag: what answers it gets one */
	u32 fresh; /* a tag has come since the last acknowledgement left */
	u64 echo;  /* the largest of those, or the one that it returned */
	u64 way;  /* the same of the responses that came since the last event */
	u64 back; /* and of the reflections in them */
};

enum { INDEX_BITS = 16 };

struct event {
	u64 ns; /* CLOCK_MONOTONIC */
	u64 way, back;
	u64 sent; /* of a probe's answer: when the prober sent it, by its clock */
	u32 id;
	u32 psn; /* or the number of a probe */
	u8 opcode;
	u8 syndrome;
	u8 probe;
	u8 reserved[5];
};

/* What a probe has behind its BTH; numbers are in network order. */
struct probe {
	u32 magic;
	u8 version, kind, has, reserved;
	u32 id, number;
	u64 sent;    /* in the prober's order */
	u64 reflect; /* the body of the tag that the request had */
};

enum { PROBE_MAGIC = 0x536c5470, PROBE_VERSION = 1, REQUEST = 1, ANSWER = 2 };

/* So that the compiler keeps the types for bpf2go. */
const struct event *event_type __attribute__((unused));
const struct probe *probe_type __attribute__((unused));

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1 << 17);
	__type(key, struct flow);
	__type(value, u32);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << INDEX_BITS);
	__type(key, u32);
	__type(value, struct conn);
} conns SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} events SEC(".maps");

struct counters {
	u64 taken;     /* tags taken off */
	u64 put;       /* forward tags put on */
	u64 reflected; /* tags put on as a reflection */
	u64 answered;  /* probes */
	u64 lost;      /* events for which the ring had no room */
	u64 failed;    /* frames dropped, or sent without a tag, for want of memory */
	u64 segmented; /* packets that stayed without a tag: segmentation offload would cut it */
};
struct counters counts;

#define count(what) __sync_fetch_and_add(&counts.what, 1)

inline_always void put16(u8 *p, u32 v) { p[0] = v >> 8, p[1] = v; }
inline_always void put48(u8 *p, u64 v) { put16(p, v >> 32), put16(p + 2, v >> 16), put16(p + 4, v); }
inline_always u64 get48(const u8 *p) { return (u64)be16(p) << 32 | be32(p + 2); }

/* later returns that of two bodies with the larger value. */
inline_always u64 later(u64 a, u64 b)
{
	if (!(a & HAS))
		return b;
	return (b & HAS) && (b & tag_value) > (a & tag_value) ? b : a;
}

/* tags are the bodies that a frame has: of a tag and of a reflection. */
struct tags {
	u64 forward, echo;
	u32 quads;
};

/* one reads the tag at offset off, whatever it is about. */
inline_always int one(struct __sk_buff *skb, u32 off, u64 *body)
{
	u8 b[8];

	if (tag_quads == 1) {
		if (bpf_skb_load_bytes(skb, off, b, 4))
			return 0;
		*body = be16(b + 2) | HAS;
	} else {
		if (bpf_skb_load_bytes(skb, off, b, 8))
			return 0;
		*body = get48(b + 2) | HAS;
	}
	return be16(b) == tag_type;
}

/* read reads up to two tags. Those of other signals, and two in another order than a
 * forward one and then a reflection, are to be taken off and say nothing. */
inline_always void read(struct __sk_buff *skb, struct tags *t)
{
	u64 first, second;

	if (!one(skb, TYPE_OFFSET, &first))
		return;
	t->quads = tag_quads;
	if ((first & signal_mask) == signal_forward)
		t->forward = first;
	else if ((first & signal_mask) == signal_echo)
		t->echo = first;
	if (!one(skb, TYPE_OFFSET + 4 * tag_quads, &second))
		return;
	t->quads += tag_quads;
	if (t->forward && (second & signal_mask) == signal_echo)
		t->echo = second;
	else
		t->forward = t->echo = 0;
}

/* strip takes the tags off a frame that arrives. The kernel has no call for that but
 * for VLAN tags, of which a tag has the shape, or two have: so they are given a VLAN's
 * EtherType. A pop takes off a tag within the frame only if a VLAN tag is what the
 * frame is said to hold, which pushing two brings about; what is within then moves
 * to where a NIC's receive offload would have put it, and the next pop drops it.
 * That also sets the kernel's idea of the protocol anew. */
static __attribute__((noinline)) int strip(struct __sk_buff *skb, u32 quads)
{
	u8 vlan[2] = {ETH_P_8021Q >> 8, ETH_P_8021Q & 0xff};
	u32 own = skb->vlan_present, tci = skb->vlan_tci, proto = skb->vlan_proto, i;

	if (own && bpf_skb_vlan_pop(skb))
		return -1;
	for (i = 0; i < MAX_QUADS; i++) {
		/* The first lies in what the kernel takes for the header, which a
		 * checksum by the NIC leaves out. */
		if (i < quads && bpf_skb_store_bytes(skb, TYPE_OFFSET + 4 * i, vlan, 2, i ? BPF_F_RECOMPUTE_CSUM : 0))
			return -1;
	}
	if (bpf_skb_vlan_push(skb, 0, 1) || bpf_skb_vlan_push(skb, 0, 1))
		return -1;
	for (i = 0; i < MAX_QUADS + 2; i++) {
		if (i < quads + 2 && bpf_skb_vlan_pop(skb))
			return -1;
	}
	if (own && bpf_skb_vlan_push(skb, proto, tci))
		return -1;
	return 0;
}

/* insert puts a tag on a frame whose body is IP, and a reflection behind it unless
 * echo is 0. */
static __attribute__((noinline)) int insert(struct __sk_buff *skb, u64 echo)
{
	u8 b[8 * 2 + 2] = {}, type[2];

	if (bpf_skb_load_bytes(skb, TYPE_OFFSET, type, 2))
		return -1;
	put16(b, tag_type);
	if (tag_quads == 1) {
		put16(b + 2, signal_forward);
		if (!echo) {
			__builtin_memcpy(b + 4, type, 2);
			return bpf_skb_adjust_room(skb, 4, BPF_ADJ_ROOM_MAC, 0) || bpf_skb_store_bytes(skb, TYPE_OFFSET, b, 6, 0);
		}
		put16(b + 4, tag_type);
		put16(b + 6, echo);
		__builtin_memcpy(b + 8, type, 2);
		return bpf_skb_adjust_room(skb, 8, BPF_ADJ_ROOM_MAC, 0) || bpf_skb_store_bytes(skb, TYPE_OFFSET, b, 10, 0);
	}
	put48(b + 2, signal_forward);
	if (!echo) {
		__builtin_memcpy(b + 8, type, 2);
		return bpf_skb_adjust_room(skb, 8, BPF_ADJ_ROOM_MAC, 0) || bpf_skb_store_bytes(skb, TYPE_OFFSET, b, 10, 0);
	}
	put16(b + 8, tag_type);
	put48(b + 10, echo);
	__builtin_memcpy(b + 16, type, 2);
	return bpf_skb_adjust_room(skb, 16, BPF_ADJ_ROOM_MAC, 0) || bpf_skb_store_bytes(skb, TYPE_OFFSET, b, 18, 0);
}

/* udp is where a packet's UDP header is, and who is at the other end. */
struct udp {
	u32 off, dport;
	u32 address; /* the offset of the source's */
	struct flow f;
};

inline_always int find(struct __sk_buff *skb, u32 arriving, struct udp *u)
{
	u8 h[40], type[2];

	if (bpf_skb_load_bytes(skb, TYPE_OFFSET, type, 2))
		return 0;
	switch (be16(type)) {
	case ETH_P_IP:
		if (bpf_skb_load_bytes(skb, ETHER_HEADER, h, 20))
			return 0;
		/* Fragments but the first have no UDP header, and RoCEv2 has none at all. */
		if (h[9] != IPPROTO_UDP || (be16(h + 6) & 0x3fff))
			return 0;
		u->f.peer[10] = u->f.peer[11] = 0xff;
		__builtin_memcpy(u->f.peer + 12, arriving ? h + 12 : h + 16, 4);
		u->address = ETHER_HEADER + 12;
		u->off = ETHER_HEADER + (h[0] & 15) * 4;
		break;
	case ETH_P_IPV6:
		if (bpf_skb_load_bytes(skb, ETHER_HEADER, h, 40))
			return 0;
		if (h[6] != IPPROTO_UDP)
			return 0;
		__builtin_memcpy(u->f.peer, arriving ? h + 8 : h + 24, 16);
		u->address = ETHER_HEADER + 8;
		u->off = ETHER_HEADER + 40;
		break;
	default:
		return 0;
	}
	if (bpf_skb_load_bytes(skb, u->off, h, UDP_HEADER))
		return 0;
	u->dport = be16(h + 2);
	u->f.arriving = arriving;
	return 1;
}

inline_always struct conn *connection(struct udp *u, const u8 *bth)
{
	struct conn *c;
	u32 *id, i;

	u->f.qpn = be24(bth + 5);
	id = bpf_map_lookup_elem(&flows, &u->f);
	if (!id)
		return 0;
	i = *id & ((1 << INDEX_BITS) - 1);
	c = bpf_map_lookup_elem(&conns, &i);
	return c && c->id == *id ? c : 0;
}

inline_always struct event *record(void)
{
	struct event *e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);

	if (!e) {
		count(lost);
		return 0;
	}
	__builtin_memset(e, 0, sizeof(*e));
	e->ns = bpf_ktime_get_ns();
	return e;
}

/* came takes the tags of a packet of the transport. */
static __attribute__((noinline)) int came(struct __sk_buff *skb, struct udp *u, struct tags *t)
{
	u8 h[BTH + 1];
	struct event *e;
	struct conn *c;
	u32 opcode;

	/* Every RC packet has more behind the BTH: at least the ICRC. */
	if (bpf_skb_load_bytes(skb, u->off + UDP_HEADER, h, sizeof(h)))
		return 0;
	opcode = h[0];
	if (opcode > LAST_OF_RC)
		return 0;
	c = connection(u, h);
	if (!c)
		return 0;
	if (opcode < READ_RESPONSE_FIRST || opcode > ATOMIC_ACKNOWLEDGE) {
		/* Two processors that do this at once may lose one of two values. */
		c->asked = t->forward != 0;
		c->echo = c->fresh || !t->forward ? later(c->echo, t->forward) : t->forward;
		c->fresh = c->fresh || t->forward;
		return 0;
	}
	c->way = later(c->way, t->forward);
	c->back = later(c->back, t->echo);
	if (!(c->flags & REPORTS) || opcode <= READ_RESPONSE_MIDDLE || !(c->way | c->back))
		return 0;
	e = record();
	if (e) {
		e->way = c->way, e->back = c->back;
		e->id = c->id;
		e->psn = be24(h + 9);
		e->opcode = opcode;
		e->syndrome = h[BTH];
		bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP); /* the reader polls */
	}
	c->way = c->back = 0;
	return 0;
}

/* turn exchanges n bytes at offset off with those behind them: addresses. A checksum
 * that covers both stays what it is. */
inline_always int turn(struct __sk_buff *skb, u32 off, u32 n)
{
	u8 a[16], b[16];

	switch (n) { /* lengths that the verifier sees */
	case 4:
		return bpf_skb_load_bytes(skb, off, a, 4) || bpf_skb_load_bytes(skb, off + 4, b, 4) ||
		       bpf_skb_store_bytes(skb, off, b, 4, BPF_F_RECOMPUTE_CSUM) || bpf_skb_store_bytes(skb, off + 4, a, 4, BPF_F_RECOMPUTE_CSUM);
	case 6: /* of the link layer, which no checksum covers */
		return bpf_skb_load_bytes(skb, off, a, 6) || bpf_skb_load_bytes(skb, off + 6, b, 6) ||
		       bpf_skb_store_bytes(skb, off, b, 6, 0) || bpf_skb_store_bytes(skb, off + 6, a, 6, 0);
	default:
		return bpf_skb_load_bytes(skb, off, a, 16) || bpf_skb_load_bytes(skb, off + 16, b, 16) ||
		       bpf_skb_store_bytes(skb, off, b, 16, BPF_F_RECOMPUTE_CSUM) || bpf_skb_store_bytes(skb, off + 16, a, 16, BPF_F_RECOMPUTE_CSUM);
	}
}

/* change writes a word of a UDP payload and mends the checksum, if there is one. */
inline_always int change(struct __sk_buff *skb, u32 udp, u32 off, u32 from, u32 to)
{
	return bpf_l4_csum_replace(skb, udp + UDP_CHECKSUM, from, to, BPF_F_MARK_MANGLED_0 | 4) ||
	       bpf_skb_store_bytes(skb, off, &to, 4, BPF_F_RECOMPUTE_CSUM);
}

/* answer sends a request back to where it came from, with what its tag said. Both have
 * one UDP source port, as the packets of a connection's two directions have. */
static __attribute__((noinline)) int answer(struct __sk_buff *skb, struct udp *u, u64 forward)
{
	u32 at = u->off + UDP_HEADER + BTH, was[2], now[2];
	u8 word[8];

	if (bpf_skb_load_bytes(skb, at + 4, &was[0], 4))
		return TC_ACT_SHOT;
	__builtin_memcpy(word, &was[0], 4);
	word[1] = ANSWER;
	word[2] = forward ? 1 : 0;
	__builtin_memcpy(&now[0], word, 4);
	if (change(skb, u->off, at + 4, was[0], now[0]))
		return TC_ACT_SHOT;
	if (bpf_skb_load_bytes(skb, at + 24, was, 8))
		return TC_ACT_SHOT;
	put16(word, 0);
	put48(word + 2, forward);
	__builtin_memcpy(now, word, 8);
	if (change(skb, u->off, at + 24, was[0], now[0]) || change(skb, u->off, at + 28, was[1], now[1]))
		return TC_ACT_SHOT;
	if (turn(skb, 0, 6) || turn(skb, u->address, u->address == ETHER_HEADER + 12 ? 4 : 16))
		return TC_ACT_SHOT;
	if (insert(skb, 0)) {
		count(failed);
		return TC_ACT_SHOT;
	}
	count(answered);
	return bpf_redirect(skb->ifindex, 0);
}

/* probed takes a probe, which the transport is not to see. */
static __attribute__((noinline)) int probed(struct __sk_buff *skb, struct udp *u, struct tags *t)
{
	struct probe p;
	struct event *e;

	if (bpf_skb_load_bytes(skb, u->off + UDP_HEADER + BTH, &p, sizeof(p)))
		return TC_ACT_SHOT;
	if (be32((u8 *)&p.magic) != PROBE_MAGIC || p.version != PROBE_VERSION)
		return TC_ACT_SHOT;
	if (p.kind == REQUEST)
		return answer(skb, u, t->forward);
	if (p.kind != ANSWER)
		return TC_ACT_SHOT;
	e = record();
	if (e) {
		e->way = t->forward;
		e->back = p.has ? get48((u8 *)&p.reflect + 2) | HAS : 0;
		e->sent = p.sent;
		e->id = be32((u8 *)&p.id);
		e->psn = be32((u8 *)&p.number);
		e->probe = 1;
		bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	}
	return TC_ACT_SHOT;
}

SEC("tc")
int arriving(struct __sk_buff *skb)
{
	struct tags t = {};
	struct udp u = {};
	u8 opcode;

	/* What is bridged to another host is that one's concern. */
	if (skb->pkt_type != PACKET_HOST)
		return TC_ACT_UNSPEC;
	read(skb, &t);
	if (t.quads) {
		if (strip(skb, t.quads)) {
			count(failed);
			return TC_ACT_SHOT;
		}
		count(taken);
	}
	if (!find(skb, 1, &u))
		return TC_ACT_UNSPEC;
	if (u.dport != ROCE_PORT || bpf_skb_load_bytes(skb, u.off + UDP_HEADER, &opcode, 1))
		return TC_ACT_UNSPEC;
	if (opcode == PROBE)
		return probed(skb, &u, &t);
	came(skb, &u, &t);
	return TC_ACT_UNSPEC;
}

SEC("tc")
int leaving(struct __sk_buff *skb)
{
	u64 echo = 0;
	struct udp u = {};
	struct conn *c = 0;
	u8 h[BTH];
	u32 opcode, wanted = 0;

	if (!find(skb, 0, &u) || u.dport != ROCE_PORT) /* what has tags is not found */
		return TC_ACT_UNSPEC;
	if (bpf_skb_load_bytes(skb, u.off + UDP_HEADER, h, BTH))
		return TC_ACT_UNSPEC;
	opcode = h[0];
	if (opcode == PROBE) {
		wanted = 1;
	} else if (opcode <= LAST_OF_RC) {
		c = connection(&u, h);
		if (!c)
			return TC_ACT_UNSPEC;
		if (opcode < READ_RESPONSE_FIRST || opcode > ATOMIC_ACKNOWLEDGE) {
			wanted = c->flags & TAGS;
		} else if (c->asked) {
			if (c->echo & HAS)
				echo = (c->echo & ~signal_mask) | signal_echo;
			wanted = 1;
		}
	}
	if (!wanted)
		return TC_ACT_UNSPEC;
	if (skb->gso_size) {
		count(segmented);
		return TC_ACT_UNSPEC;
	}
	if (insert(skb, echo)) {
		count(failed);
		return TC_ACT_UNSPEC;
	}
	count(put);
	if (echo && c) {
		/* It stays for the next one: packets come by here before the transport sees
		 * them, so one acknowledgement may return what several are about. */
		c->fresh = 0;
		count(reflected);
	}
	return TC_ACT_UNSPEC;
}

/* No helper that is used needs another licence. */
char __license[] SEC("license") = "Apache-2.0";
