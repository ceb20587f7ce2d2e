// An IPv4 router: longest prefix, MAC addresses, time to live, header checksum.
#include <core.p4>
#include <v1model.p4>

header eth_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type_;
}

header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<8>  tos;
    bit<16> len;
    bit<16> id;
    bit<3>  flags;
    bit<13> offset;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> sum;
    bit<32> src;
    bit<32> dst;
}

struct headers_t {
    eth_t  eth;
    ipv4_t ip;
}

struct meta_t { }

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.eth);
        transition select(h.eth.type_) {
            0x0800: ipv4;
            default: accept;
        }
    }
    state ipv4 {
        p.extract(h.ip);
        verify(h.ip.ihl == 5, error.HeaderTooShort);
        transition accept;
    }
}

control verify_(inout headers_t h, inout meta_t m) {
    apply {
        verify_checksum(h.ip.isValid(), { h.ip.version, h.ip.ihl, h.ip.tos, h.ip.len, h.ip.id, h.ip.flags, h.ip.offset,
            h.ip.ttl, h.ip.protocol, h.ip.src, h.ip.dst }, h.ip.sum, HashAlgorithm.csum16);
    }
}

control ingress(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    action drop() { mark_to_drop(s); }
    action forward(bit<48> dst, bit<9> port) {
        s.egress_spec = port;
        h.eth.src = h.eth.dst;
        h.eth.dst = dst;
        h.ip.ttl = h.ip.ttl - 1;
    }
    table routes {
        key = { h.ip.dst : lpm; }
        actions = { forward; drop; }
        default_action = drop();
        size = 1024;
    }
    apply {
        if (h.ip.isValid() && s.checksum_error == 0 && h.ip.ttl > 1) {
            routes.apply();
        } else {
            drop();
        }
    }
}

control egress(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply { }
}

control update_(inout headers_t h, inout meta_t m) {
    apply {
        update_checksum(h.ip.isValid(), { h.ip.version, h.ip.ihl, h.ip.tos, h.ip.len, h.ip.id, h.ip.flags, h.ip.offset,
            h.ip.ttl, h.ip.protocol, h.ip.src, h.ip.dst }, h.ip.sum, HashAlgorithm.csum16);
    }
}

control D(packet_out p, in headers_t h) {
    apply { p.emit(h); }
}

V1Switch(P(), verify_(), ingress(), egress(), update_(), D()) main;
