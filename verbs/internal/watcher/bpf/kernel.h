/*
 * What the programs that watch connections need of the kernel's interface to BPF
 * programs: numbers and layouts that the kernel promises never to change
 * (include/uapi/linux/bpf.h). They stand here so that the objects depend on the
 * compiler alone, not on which headers a machine has. And what both need of RoCEv2
 * (IBA volume 1, 9.2, and its annex A17), and of the Go side.
 */
#ifndef SLUICE_KERNEL_H
#define SLUICE_KERNEL_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
#define __uint(name, val) int(*name)[val]
#define __type(name, val) typeof(val) *name

enum { BPF_MAP_TYPE_HASH = 1, BPF_MAP_TYPE_ARRAY = 2, BPF_MAP_TYPE_RINGBUF = 27 };
enum { BPF_F_NO_PREALLOC = 1 };
enum { BPF_RB_NO_WAKEUP = 1 };
enum { BPF_F_RECOMPUTE_CSUM = 1, BPF_F_MARK_MANGLED_0 = 1 << 5 };
enum { BPF_ADJ_ROOM_MAC = 1 };
enum { TC_ACT_UNSPEC = -1, TC_ACT_SHOT = 2 }; /* TCX_NEXT and TCX_DROP as well */
enum { PACKET_HOST = 0 };

/* The context of a TC program, as far as these look. */
struct __sk_buff {
	u32 len;
	u32 pkt_type;
	u32 mark;
	u32 queue_mapping;
	u32 protocol;
	u32 vlan_present;
	u32 vlan_tci;
	u32 vlan_proto;
	u32 priority;
	u32 ingress_ifindex;
	u32 ifindex;
	u32 tc_index;
	u32 cb[5];
	u32 hash;
	u32 tc_classid;
	u32 data;
	u32 data_end;
	u32 napi_id;
	u32 family;
	u32 remote_ip4;
	u32 local_ip4;
	u32 remote_ip6[4];
	u32 local_ip6[4];
	u32 remote_port;
	u32 local_port;
	u32 data_meta;
	u64 flow_keys __attribute__((aligned(8)));
	u64 tstamp;
	u32 wire_len;
	u32 gso_segs;
	u64 sk __attribute__((aligned(8)));
	u32 gso_size;
};

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static u64 (*bpf_ktime_get_ns)(void) = (void *)5;
static long (*bpf_skb_store_bytes)(void *skb, u32 offset, const void *from, u32 len, u64 flags) = (void *)9;
static long (*bpf_l4_csum_replace)(void *skb, u32 offset, u64 from, u64 to, u64 flags) = (void *)11;
static long (*bpf_skb_vlan_push)(void *skb, u16 proto, u16 tci) = (void *)18;
static long (*bpf_skb_vlan_pop)(void *skb) = (void *)19;
static long (*bpf_redirect)(u32 ifindex, u64 flags) = (void *)23;
static long (*bpf_skb_load_bytes)(const void *skb, u32 offset, void *to, u32 len) = (void *)26;
static long (*bpf_skb_adjust_room)(void *skb, int difference, u32 mode, u64 flags) = (void *)50;
static void *(*bpf_ringbuf_reserve)(void *ringbuf, u64 size, u64 flags) = (void *)131;
static void (*bpf_ringbuf_submit)(void *data, u64 flags) = (void *)132;

#define inline_always static __attribute__((always_inline)) inline

inline_always u32 be16(const u8 *p) { return (u32)p[0] << 8 | p[1]; }
inline_always u32 be24(const u8 *p) { return (u32)p[0] << 16 | (u32)p[1] << 8 | p[2]; }
inline_always u32 be32(const u8 *p) { return (u32)p[0] << 24 | be24(p + 1); }

enum {
	ETH_P_IP = 0x0800,
	ETH_P_8021Q = 0x8100,
	ETH_P_IPV6 = 0x86dd,
	IPPROTO_UDP = 17,
	UDP_HEADER = 8,
	ROCE_PORT = 4791,
	BTH = 12,
};

/* Opcodes of the reliable connection (IBA table 35). */
enum {
	READ_RESPONSE_FIRST = 13,
	READ_RESPONSE_MIDDLE = 14,
	ATOMIC_ACKNOWLEDGE = 18,
};

/* A direction of a connection: who the peer is, and the number of the queue pair
 * that packets are for; the peer's own of those that leave. */
struct flow {
	u8 peer[16]; /* IPv6, or IPv4 mapped to it */
	u32 qpn;
	u32 arriving;
};

#endif
