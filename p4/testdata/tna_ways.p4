// Every way that a packet may take through TNA, and its objects, chosen by the first byte.
#include <core.p4>
#if __TARGET_TOFINO__ == 2
#include <t2na.p4>
#define RECIRCULATION 6
#else
#include <tna.p4>
#define RECIRCULATION 68
#endif

header h_t {
    bit<8>  what;
    bit<8>  a;
    bit<16> b;
    bit<32> c;
}

header mirror_h {
    bit<8>  marker;
    bit<8>  note;
}

header resubmit_h {
    bit<32> note;
    bit<32> rest;
}

struct headers_t {
    mirror_h mirror;
    h_t      h;
}

struct meta_t {
    bit<8>    note;
    bit<32>   again;
    MirrorId_t session;
    bool      bad;
}

struct pair_t {
    bit<16> low;
    bit<16> high;
}

parser IngressParser(packet_in pkt, out headers_t h, out meta_t m, out ingress_intrinsic_metadata_t ig) {
    Checksum() sum;
    state start {
        pkt.extract(ig);
        transition select(ig.resubmit_flag) {
            1: again;
            default: first;
        }
    }
    state again {
        resubmit_h r;
        pkt.extract(r);
        pkt.advance(PORT_METADATA_SIZE - 64); // nothing on Tofino 1
        m.again = r.note;
        transition packet;
    }
    state first {
        pkt.advance(PORT_METADATA_SIZE);
        transition packet;
    }
    state packet {
        pkt.extract(h.h);
        sum.add(h.h);
        m.bad = sum.verify();
        transition accept;
    }
}

control Ingress(inout headers_t h, inout meta_t m,
                in ingress_intrinsic_metadata_t ig,
                in ingress_intrinsic_metadata_from_parser_t prsr,
                inout ingress_intrinsic_metadata_for_deparser_t dprsr,
                inout ingress_intrinsic_metadata_for_tm_t tm) {
    Register<bit<32>, bit<8>>(4, 100) cells;
    RegisterAction<bit<32>, bit<8>, bit<32>>(cells) add = {
        void apply(inout bit<32> value, out bit<32> before) {
            before = value;
            if (h.h.c > 10) {
                value = 0;
            } else {
                value = value + h.h.c;
            }
        }
    };
    Register<pair_t, bit<8>>(2) pairs;
    RegisterAction<pair_t, bit<8>, bit<16>>(pairs) swap = {
        void apply(inout pair_t p, out bit<16> rv) {
            rv = p.high;
            p.high = p.low;
            p.low = h.h.b;
        }
    };
    RegisterAction<bit<32>, bit<8>, bit<32>>(cells) clear_ = {
        void apply(inout bit<32> value) {
            value = 0;
        }
    };
    Counter<bit<32>, bit<8>>(4, CounterType_t.PACKETS_AND_BYTES) seen;
    DirectCounter<bit<32>>(CounterType_t.PACKETS) hits;
    Meter<bit<8>>(2, MeterType_t.BYTES) pace;
    Hash<bit<16>>(HashAlgorithm_t.CRC16) crc;
    CRCPolynomial<bit<16>>(0x1021, false, false, false, 0xffff, 0) ccitt;
    Hash<bit<16>>(HashAlgorithm_t.CUSTOM, ccitt) custom;
    Hash<bit<8>>(HashAlgorithm_t.IDENTITY) same;
    Random<bit<4>>() dice;

    action hit(bit<8> v) {
        h.h.a = v;
        hits.count();
    }
    table t {
        key = { h.h.a : ternary; }
        actions = { hit; NoAction; }
        default_action = NoAction();
        counters = hits;
        size = 16;
    }

    apply {
        tm.ucast_egress_port = 1;
        seen.count(h.h.a);
        if (ig.resubmit_flag == 1) {
            h.h.c = m.again;
        } else if (h.h.what == 1) {
            h.h.c = add.execute(h.h.a);
        } else if (h.h.what == 2) {
            h.h.b = swap.execute(h.h.a);
        } else if (h.h.what == 3) {
            h.h.b = crc.get({ h.h.c });
        } else if (h.h.what == 4) {
            h.h.b = custom.get({ h.h.c });
        } else if (h.h.what == 5) {
            h.h.a = same.get({ h.h.b });
            h.h.c = (bit<32>)dice.get();
        } else if (h.h.what == 6) {
            dprsr.mirror_type = 1;
            m.session = 7;
            h.h.a = 0x99;
        } else if (h.h.what == 7) {
            dprsr.resubmit_type = 2;
        } else if (h.h.what == 8) {
            tm.mcast_grp_a = 9;
            tm.ucast_egress_port = 0x1ff;
        } else if (h.h.what == 9) {
            dprsr.drop_ctl = 1;
        } else if (h.h.what == 10) {
            tm.bypass_egress = 1;
        } else if (h.h.what == 11) {
            tm.ucast_egress_port = RECIRCULATION;
            h.h.what = 12;
        } else if (h.h.what == 12) {
            h.h.b = 0x44 + (bit<16>)(ig.ingress_port - RECIRCULATION);
        } else if (h.h.what == 13) {
            h.h.a = (bit<8>)pace.execute(h.h.a);
            h.h.c = max(h.h.c, 32w5);
        } else if (h.h.what == 14) {
            t.apply();
        } else if (h.h.what == 15) {
            clear_.execute(h.h.a);
            cells.write(0, cells.read(1) + 1);
        } else if (h.h.what == 16) {
            h.h.a = m.bad ? 8w1 : 8w0;
        } else if (h.h.what == 17) {
            h.h.c = prsr.global_tstamp[31:0];
        }
    }
}

control IngressDeparser(packet_out pkt, inout headers_t h, in meta_t m,
                        in ingress_intrinsic_metadata_for_deparser_t dprsr) {
    Mirror() mirror;
    Resubmit() resubmit;
    apply {
        if (dprsr.mirror_type == 1) {
            mirror.emit<mirror_h>(m.session, { 0xfe, 0x31 });
        }
        if (dprsr.resubmit_type == 2) {
            resubmit.emit<resubmit_h>({ 0xabcd1234, 0 });
        }
        pkt.emit(h.h);
    }
}

parser EgressParser(packet_in pkt, out headers_t h, out meta_t m, out egress_intrinsic_metadata_t eg) {
    state start {
        pkt.extract(eg);
        transition select(pkt.lookahead<bit<8>>()) {
            0xfe: mirrored;
            default: packet;
        }
    }
    state mirrored {
        mirror_h x;
        pkt.extract(x);
        m.note = x.note;
        transition packet;
    }
    state packet {
        pkt.extract(h.h);
        transition accept;
    }
}

control Egress(inout headers_t h, inout meta_t m,
               in egress_intrinsic_metadata_t eg,
               in egress_intrinsic_metadata_from_parser_t prsr,
               inout egress_intrinsic_metadata_for_deparser_t dprsr,
               inout egress_intrinsic_metadata_for_output_port_t oport) {
    apply {
        if (m.note != 0) {
            h.h.b = (bit<16>)m.note;
        } else if (h.h.what == 8) {
            h.h.b = eg.egress_rid;
        } else if (h.h.what == 10) {
            h.h.a = 0xee; // left out
        } else if (h.h.what == 17) {
            h.h.a = (bit<8>)eg.deq_qdepth;
            h.h.b = (bit<16>)eg.deq_timedelta;
        } else if (h.h.what == 18) {
            dprsr.drop_ctl = 1;
        }
    }
}

control EgressDeparser(packet_out pkt, inout headers_t h, in meta_t m,
                       in egress_intrinsic_metadata_for_deparser_t dprsr) {
    Checksum() sum;
    apply {
        if (h.h.what == 19) {
            h.h.b = sum.update({ h.h.what, h.h.a, h.h.c });
        }
        pkt.emit(h.h);
    }
}

Pipeline(IngressParser(), Ingress(), IngressDeparser(), EgressParser(), Egress(), EgressDeparser()) pipe;
Switch(pipe) main;
