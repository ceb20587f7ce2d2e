// Registers, counters, meters, hashes, checksums, selectors, and tables of every kind.
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8>  what;
    bit<8>  index;
    bit<16> sum;
    bit<32> value;
}

header wide_t {
    bit<4>   low;
    bit<124> high;
}

struct headers_t {
    h_t    h;
    wide_t wide;
}

struct pair_t {
    bit<8>  first;
    bit<80> second;
}

struct meta_t { }

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.h);
        transition select(h.h.what) {
            0x20 .. 0x2f: wide;
            default: accept;
        }
    }
    state wide {
        p.extract(h.wide);
        transition accept;
    }
}

control verify_(inout headers_t h, inout meta_t m) {
    apply {
        verify_checksum_with_payload(h.h.what == 0x10, { h.h.what, h.h.index, h.h.value }, h.h.sum, HashAlgorithm.csum16);
    }
}

control ingress(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    register<bit<32>>(4) cells;
    register<pair_t>(2) pairs;
    counter(4, CounterType.packets_and_bytes) seen;
    meter(2, MeterType.packets) pace;
    direct_counter(CounterType.packets) hits;
    action_selector(HashAlgorithm.identity, 16, 8) chosen;
    bit<32> t;
    pair_t pair;

    action set(bit<32> v) { h.h.value = v; }
    action add_index(inout bit<32> x, bit<32> v) { x = v + (bit<32>)h.h.index; }

    table by_range {
        key = { h.h.index : range; h.h.what : exact; }
        actions = { set; add_index(h.h.value); NoAction; }
        counters = hits;
        default_action = set(0xdead);
    }
    table by_prefix {
        key = { h.h.value : lpm; }
        actions = { set; NoAction; }
        default_action = NoAction();
    }
    table by_option {
        key = { h.h.index : optional; }
        actions = { set; }
        default_action = set(0);
        const entries = {
            3: set(33);
            _: set(99);
        }
    }
    table by_hash {
        key = { h.h.what : exact; h.h.index : selector; }
        actions = { set; NoAction; }
        implementation = chosen;
    }
    table by_wide {
        key = { h.wide.high : ternary; }
        actions = { set; }
        default_action = set(7);
    }

    apply {
        s.egress_spec = 1;
        seen.count((bit<32>)h.h.index);
        if (h.h.what == 1) {
            cells.read(t, (bit<32>)h.h.index);
            cells.write((bit<32>)h.h.index, t + h.h.value);
            h.h.value = t;
        } else if (h.h.what == 2) {
            pairs.read(pair, 1);
            h.h.index = pair.first;
            h.h.value = pair.second[79:48];
            pairs.write(1, { pair.first + 1, pair.second + (80w1 << 48) });
        } else if (h.h.what == 3) {
            bit<2> color;
            pace.execute_meter((bit<32>)h.h.index, color);
            h.h.value = (bit<32>)color;
        } else if (h.h.what == 4) {
            hash(h.h.value, HashAlgorithm.crc32, 32w0, { h.h.what, h.h.index }, 64w0x100000000);
        } else if (h.h.what == 5) {
            hash(h.h.value, HashAlgorithm.crc16, 32w10, { h.h.index }, 32w100);
        } else if (h.h.what == 6) {
            bit<32> r;
            random(r, 5, 5);
            h.h.value = r;
            digest<bit<8>>(1, h.h.what);
        } else if (h.h.what == 7) {
            by_range.apply();
        } else if (h.h.what == 8) {
            by_prefix.apply();
        } else if (h.h.what == 9) {
            by_option.apply();
        } else if (h.h.what == 11) {
            if (by_hash.apply().miss) {
                h.h.value = 0xffffffff;
            }
        } else if (h.h.what == 0x10) {
            h.h.value = (bit<32>)s.checksum_error;
        } else if (h.wide.isValid()) {
            by_wide.apply();
            h.wide.high = h.wide.high + (124w1 << 100);
        }
    }
}

control egress(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply { }
}

control update_(inout headers_t h, inout meta_t m) {
    apply {
        update_checksum_with_payload(h.h.what == 0x11, { h.h.what, h.h.index, h.h.value }, h.h.sum, HashAlgorithm.csum16);
        update_checksum(h.h.what == 0x12, { h.h.what, h.h.index, h.h.value }, h.h.sum, HashAlgorithm.xor16);
    }
}

control D(packet_out p, in headers_t h) {
    apply {
        p.emit(h);
    }
}

V1Switch(P(), verify_(), ingress(), egress(), update_(), D()) main;
