// Headers that the programs share: Ethernet, one VLAN tag, IPv4, IPv6, UDP, BTH, and
// what docs/telemetry.md draws. A tag before the EtherType is a header of its own and
// so is the EtherType behind it, so that to put a tag on or take it off is to make one
// header valid or invalid.

#ifndef SLUICE_HEADERS_P4
#define SLUICE_HEADERS_P4

// None is assigned; these are IEEE 802's for local experiments. Another is chosen
// with -D.
#ifndef ETHERTYPE_WIDE
#define ETHERTYPE_WIDE 0x88b5
#endif
#ifndef ETHERTYPE_COMPACT
#define ETHERTYPE_COMPACT 0x88b6
#endif
#ifndef ETHERTYPE_VALUE
#define ETHERTYPE_VALUE 0x88b6
#endif

// UDP destination port of packets with INT.
#ifndef INT_PORT
#define INT_PORT 54791
#endif

#define ETHERTYPE_VLAN 0x8100
#define ETHERTYPE_IPV4 0x0800
#define ETHERTYPE_IPV6 0x86dd
#define PROTOCOL_UDP   17
#define ROCE_PORT      4791
// A packet with a tag that the peer's host answers, not its NIC: no switch takes the
// tag off.
#define OPCODE_PROBE   0xc0

// CSIG's signal types.
#define SIGNAL_DELAY     2
#define SIGNAL_REFLECTED 6

#define INT_TYPE  4
#define INT_NPT   1
#define INT_HOPS  8
#define INT_SHIM_BYTES 4
#define INT_HOP_BYTES  8
#define INT_HOP_WORDS  2

header mac_t {
    bit<48> dst;
    bit<48> src;
}

header vlan_t {
    bit<16> tpid;
    bit<16> tci;
}

// CSIG's wide tag. signal is t (4 bits), the value (20) and reserved bits (8); lm and d
// share the 16 bits before it.
header wide_t {
    bit<16> tpid;
    bit<15> lm;
    bit<1>  d;
    bit<4>  t;
    bit<20> value;
    bit<8>  reserved;
}

// CSIG's compact tag.
header compact_t {
    bit<16> tpid;
    bit<3>  t;
    bit<1>  reserved;
    bit<5>  value;
    bit<6>  lm;
    bit<1>  d;
}

// Poseidon's two bytes. The top bit says that the value is on its way back.
header value_t {
    bit<16> tpid;
    bit<16> value;
}

header ethertype_t {
    bit<16> ether_type;
}

header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<8>  tos;
    bit<16> total_len;
    bit<16> identification;
    bit<3>  flags;
    bit<13> frag_offset;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

header ipv6_t {
    bit<4>   version;
    bit<8>   traffic_class;
    bit<20>  flow_label;
    bit<16>  payload_len;
    bit<8>   next_header;
    bit<8>   hop_limit;
    bit<128> src;
    bit<128> dst;
}

header udp_t {
    bit<16> src_port;
    bit<16> dst_port;
    bit<16> len;
    bit<16> checksum;
}

// INT's shim and a hop's record. words counts the records' 32-bit words.
header int_shim_t {
    bit<4>  type_;
    bit<2>  npt;
    bit<1>  overflow;
    bit<1>  reflected;
    bit<8>  words;
    bit<16> port;
}

header int_hop_t {
    bit<4>  rate;
    bit<24> time;
    bit<20> tx_bytes;
    bit<16> qlen;
}

// ein and ein_echo are two of the bits that IBA reserves.
header bth_t {
    bit<8>  opcode;
    bit<1>  solicited;
    bit<1>  migrated;
    bit<2>  pad;
    bit<4>  version;
    bit<16> pkey;
    bit<1>  fecn;
    bit<1>  becn;
    bit<1>  ein;
    bit<1>  ein_echo;
    bit<4>  reserved;
    bit<24> dest_qp;
    bit<1>  ack_req;
    bit<7>  reserved7;
    bit<24> psn;
}

struct headers_t {
    mac_t         mac;
    vlan_t        vlan;
#ifdef TAG_CSIG
    wide_t        wide;
    wide_t        wide_back;
    compact_t     compact;
    compact_t     compact_back;
#endif
#ifdef TAG_VALUE
    value_t       tag;
    value_t       tag_back;
#endif
    ethertype_t   ethertype;
    ipv4_t        ipv4;
    ipv6_t        ipv6;
    udp_t         udp;
#ifdef WITH_INT
    int_shim_t    shim;
    int_hop_t     mine;
    int_hop_t[INT_HOPS] hops;
#endif
    bth_t         bth;
}

#endif
