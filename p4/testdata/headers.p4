// Stacks, unions, varbit fields, look-ahead, sub-parsers and sub-controls, functions, copying in and out, exits.
#include <core.p4>
#include <v1model.p4>

header kind_h {
    bit<8> what;
    bit<8> n;
}

header byte_h {
    bit<8> x;
}

header short_h {
    bit<8>  tag;
    bit<16> x;
}

header option_h {
    bit<8>       len;
    varbit<64>   data;
    bit<8>       last;
}

header_union either_u {
    byte_h  one;
    short_h two;
}

struct headers_t {
    kind_h      kind;
    byte_h[4]   items;
    either_u    u;
    either_u[2] us;
    option_h    option;
    byte_h      out_;
}

struct meta_t {
    bit<8> count;
}

error { TooMany }

parser Items(packet_in p, inout byte_h[4] items, in bit<8> n, out bit<8> count) {
    bit<8> left = n;
    state start {
        count = 0;
        transition more;
    }
    state more {
        transition select(left) {
            0: accept;
            default: item;
        }
    }
    state item {
        p.extract(items.next);
        left = left - 1;
        count = count + 1;
        transition more;
    }
}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    Items() items;
    state start {
        p.extract(h.kind);
        transition select(h.kind.what, h.kind.n) {
            (1, _): stack;
            (2, 0 &&& 1): even;
            (2, _): odd;
            (3, 0 .. 8): varbits;
            (4, _): union_stack;
            (5, _): skip;
            (6, 9): reject;
            (12, _): nothing;
            default: accept;
        }
    }
    state nothing {
        transition select() {
            default: skip;
        }
    }
    state stack {
        verify(h.kind.n != 7, error.TooMany);
        items.apply(p, h.items, h.kind.n, m.count);
        transition accept;
    }
    state even {
        p.extract(h.u.one);
        transition accept;
    }
    state odd {
        short_h ahead = p.lookahead<short_h>();
        transition select(ahead.tag) {
            0xaa: read;
            default: accept;
        }
    }
    state read {
        p.extract(h.u.two);
        transition accept;
    }
    state varbits {
        p.extract(h.option, (bit<32>)h.kind.n * 8);
        transition accept;
    }
    state union_stack {
        p.extract(h.us.next.one);
        p.extract(h.us.next.two);
        transition accept;
    }
    state skip {
        p.advance((bit<32>)h.kind.n * 8);
        p.extract(h.out_);
        transition accept;
    }
}

control none(inout headers_t h, inout meta_t m) {
    apply { }
}

bit<8> twice(in bit<8> x) {
    if (x > 0x7f) {
        return 0xff;
    }
    return x << 1;
}

bit<8> next(inout bit<8> x) {
    x = x + 1;
    return x;
}

T choose<T>(in bool first, in T a, in T b) {
    return first ? a : b;
}

void swap(inout bit<8> a, inout bit<8> b) {
    bit<8> t = a;
    a = b;
    b = t;
}

control Sum(in byte_h[4] items, out bit<8> sum)(bit<8> begin) {
    apply {
        sum = begin;
        if (items[0].isValid()) { sum = sum + items[0].x; }
        if (items[1].isValid()) { sum = sum + items[1].x; }
        if (sum == 0x44) { return; }
        if (items[2].isValid()) { sum = sum + items[2].x; }
        if (items[3].isValid()) { sum = sum + items[3].x; }
    }
}

control Leave(inout bit<8> x) {
    apply {
        x = x + 1;
        if (x == 0x31) { exit; }
        x = x + 1;
    }
}

control ingress(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    Sum(0x10) sum;
    Leave() leave;
    bit<8> i;

    action set(out bit<8> to, bit<8> v) {
        to = v;
        return;
    }
    action stop() {
        h.out_.x = 0x66;
        exit;
    }
    table t {
        key = { h.kind.n : exact; }
        actions = { set(h.out_.x); stop; NoAction; }
        const entries = {
            1: set(0x51);
            2: stop();
        }
        const default_action = NoAction;
    }

    apply {
        s.egress_spec = 1;
        if (s.parser_error == error.TooMany) {
            s.egress_spec = 2;
        } else if (s.parser_error == error.StackOutOfBounds) {
            s.egress_spec = 3;
        } else if (s.parser_error == error.PacketTooShort) {
            s.egress_spec = 4;
        } else if (s.parser_error == error.HeaderTooShort) {
            s.egress_spec = 5;
        } else if (h.kind.what == 1) {
            sum.apply(h.items, i);
            h.out_ = { i };
            if (h.kind.n == 2) {
                h.items.push_front(1);
                h.items[0] = { 0xee };
            } else if (h.kind.n == 3) {
                h.items.pop_front(2);
            } else if (h.kind.n == 4) {
                // The index is evaluated once, before what changes it.
                i = 0;
                h.items[i].x = next(i);
                swap(h.items[2].x, h.items[3].x);
                h.items[i + 1].x = h.items[i + 200].x;
            }
        } else if (h.kind.what == 2) {
            h.out_.setValid();
            h.out_.x = h.u.one.isValid() ? 8w1 : h.u.two.isValid() ? 8w2 : 8w3;
            if (h.kind.n == 2) {
                h.u.two.setValid(); // and one is not
                h.u.two.tag = 0xbb;
                h.u.two.x = 0x1234;
            } else if (h.kind.n == 3) {
                h.u.two.setInvalid();
            }
        } else if (h.kind.what == 3) {
            h.option.last = h.option.last + 1;
        } else if (h.kind.what == 4) {
            h.out_ = { 0 };
            if (h.us[0].one.isValid() && h.us[1].isValid() && !h.us[1].one.isValid()) {
                h.out_.x = 1;
            }
        } else if (h.kind.what == 6) {
            h.out_ = { twice(h.kind.n) + choose(h.kind.n == 4, 8w1, 8w2) };
        } else if (h.kind.what == 7) {
            h.out_ = { 0 };
            t.apply();
            h.out_.x = h.out_.x + 1;
        } else if (h.kind.what == 8) {
            h.out_ = { 0 };
            switch (t.apply().action_run) {
                set:
                NoAction: { h.out_.x = h.out_.x + 1; }
                default: { h.out_.x = 0; }
            }
        } else if (h.kind.what == 9) {
            h.out_ = { h.kind.n };
            leave.apply(h.out_.x);
            h.out_.x = h.out_.x + 0x40;
        } else if (h.kind.what == 10) {
            h.out_ = { 0 };
            for (bit<8> k = 0; k < h.kind.n; k = k + 1) {
                if (k == 3) { continue; }
                if (k == 6) { break; }
                h.out_.x = h.out_.x + k;
            }
            for (bit<8> k in 1 .. 3) {
                h.out_.x = h.out_.x + k;
            }
        } else if (h.kind.what == 11) {
            // Headers are equal if both are invalid, or their fields are.
            byte_h a;
            byte_h b = { 1 };
            h.out_ = { 0 };
            if (a == h.items[0] && a != b) { h.out_.x = 1; }
            a = b;
            b.setInvalid();
            if (a == { 1 } && a != b && !b.isValid()) { h.out_.x = h.out_.x + 2; }
        }
    }
}

control egress(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply { }
}

control D(packet_out p, in headers_t h) {
    apply {
        p.emit(h);
    }
}

V1Switch(P(), none(), ingress(), egress(), none(), D()) main;
