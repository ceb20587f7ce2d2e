/*
 * Stamps RoCEv2 packets at a network interface's TC hooks: requests of registered
 * queue pairs as they leave, and what answers them as it arrives. Each stamp is a
 * record in a ring buffer; the Go side (package wirestamp) makes completion
 * timestamps of them. Packets pass unchanged, and on to the next program.
 *
 * The headers are those of IBA volume 1 (9.2 to 9.5) and its annex A17.
 */
#include "../../internal/watcher/bpf/kernel.h"

enum {
	ETH_P_8021AD = 0x88a8,
	RETH_LENGTH = 12, /* of the length in the RETH */
	MAX_TAGS = 2,
	MAX_SEGMENTS = 128, /* UDP_MAX_SEGMENTS */
};

/* More opcodes of the reliable connection. */
enum {
	SEND_MIDDLE = 1,
	WRITE_MIDDLE = 7,
	READ_REQUEST = 12,
	SEND_ONLY_INV = 23,
};

/* The length of a link-layer header: 14 with Ethernet, 0 without any. */
volatile const u32 link_header = 14;

/* Records for which the ring had no room. */
u64 lost;

struct event {
	u64 ns; /* CLOCK_MONOTONIC */
	u32 id; /* of the connection, as registered */
	u32 psn;
	u32 length;  /* of a READ request: bytes asked for */
	u8 opcode;   /* as in the BTH */
	u8 syndrome; /* of what has an AETH */
	u8 arriving;
	u8 reserved;
};

/* So that the compiler keeps the type for bpf2go. */
const struct event *event_type __attribute__((unused));

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1 << 18);
	__type(key, struct flow);
	__type(value, u32);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22);
} events SEC(".maps");

/* The middle of a message tells nothing that its ends do not. */
inline_always int wanted(u32 opcode, u32 arriving)
{
	if (arriving)
		return opcode >= READ_RESPONSE_FIRST && opcode <= ATOMIC_ACKNOWLEDGE && opcode != READ_RESPONSE_MIDDLE;
	return (opcode <= READ_REQUEST && opcode != SEND_MIDDLE && opcode != WRITE_MIDDLE) ||
	       (opcode > ATOMIC_ACKNOWLEDGE && opcode <= SEND_ONLY_INV);
}

/* Stamps the transport packet that begins at offset off. Not inline: the verifier of
 * Linux 6.18 refuses (EFAULT) a loop with all of this in it to who has CAP_BPF but
 * not CAP_PERFMON, whose programs it also follows down mispredicted branches. */
static __attribute__((noinline)) int packet(struct __sk_buff *skb, u32 off, struct flow *f, u64 now)
{
	u8 bth[BTH], more[4] = {};
	u32 *id, opcode;
	struct event *e;

	if (bpf_skb_load_bytes(skb, off, bth, sizeof(bth)))
		return 0;
	opcode = bth[0];
	if (!wanted(opcode, f->arriving))
		return 0;
	f->qpn = be24(bth + 5);
	id = bpf_map_lookup_elem(&flows, f);
	if (!id)
		return 0;
	if (f->arriving || opcode == READ_REQUEST) {
		if (bpf_skb_load_bytes(skb, off + BTH + (f->arriving ? 0 : RETH_LENGTH), more, sizeof(more)))
			return 0;
	}
	e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);
	if (!e) {
		__sync_fetch_and_add(&lost, 1);
		return 0;
	}
	e->ns = now;
	e->id = *id;
	e->psn = be24(bth + 9);
	e->length = f->arriving ? 0 : be32(more);
	e->opcode = opcode;
	e->syndrome = f->arriving ? more[0] : 0;
	e->arriving = f->arriving;
	e->reserved = 0;
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP); /* the reader polls */
	return 0;
}

inline_always int stamp(struct __sk_buff *skb, u32 arriving)
{
	u8 h[40], type[2];
	u32 off = link_header, proto, size, i;
	u16 protocol = skb->protocol; /* in network order */
	struct flow f = {.arriving = arriving};
	u64 now;

	/* The protocol behind tags that the NIC takes off or puts on; others are there to
	 * be read, and with a link-layer header only. */
	proto = be16((u8 *)&protocol);
	for (i = 0; i < MAX_TAGS && off && (proto == ETH_P_8021Q || proto == ETH_P_8021AD); i++) {
		if (bpf_skb_load_bytes(skb, off + 2, type, 2))
			return TC_ACT_UNSPEC;
		proto = be16(type);
		off += 4;
	}

	switch (proto) {
	case ETH_P_IP:
		if (bpf_skb_load_bytes(skb, off, h, 20))
			return TC_ACT_UNSPEC;
		/* Fragments but the first have no UDP header, and RoCEv2 has none at all. */
		if (h[9] != IPPROTO_UDP || (be16(h + 6) & 0x3fff))
			return TC_ACT_UNSPEC;
		f.peer[10] = f.peer[11] = 0xff;
		__builtin_memcpy(f.peer + 12, arriving ? h + 12 : h + 16, 4);
		off += (h[0] & 15) * 4;
		break;
	case ETH_P_IPV6:
		if (bpf_skb_load_bytes(skb, off, h, 40))
			return TC_ACT_UNSPEC;
		if (h[6] != IPPROTO_UDP)
			return TC_ACT_UNSPEC;
		__builtin_memcpy(f.peer, arriving ? h + 8 : h + 24, 16);
		off += 40;
		break;
	default:
		return TC_ACT_UNSPEC;
	}
	if (bpf_skb_load_bytes(skb, off + 2, type, 2) || be16(type) != ROCE_PORT)
		return TC_ACT_UNSPEC;
	now = bpf_ktime_get_ns();

	/* What segmentation offload will cut, or receive offload has put together,
	 * is several packets of one size and perhaps a shorter one. */
	off += UDP_HEADER;
	size = skb->gso_size;
	packet(skb, off, &f, now);
	if (size < BTH)
		return TC_ACT_UNSPEC;
	for (i = 1; i < MAX_SEGMENTS; i++) {
		off += size;
		if (off + BTH > skb->len)
			break;
		packet(skb, off, &f, now);
	}
	return TC_ACT_UNSPEC;
}

SEC("tc")
int leaving(struct __sk_buff *skb) { return stamp(skb, 0); }

SEC("tc")
int arriving(struct __sk_buff *skb) { return stamp(skb, 1); }

/* No helper that is used needs another licence. */
char __license[] SEC("license") = "Apache-2.0";
