"""Questions to the help centre, each with an answer its pages support and one that sounds as good and is made up."""

from __future__ import annotations

from typing import NamedTuple


class Dialogue(NamedTuple):
    """One question and its two answers."""

    question: str
    supported: str
    unsupported: str


DIALOGUES: tuple[Dialogue, ...] = (
    Dialogue(
        "How long do I have to send a device back?",
        "You can return any Acme device within 30 days of delivery, as long as it is complete with all its "
        "accessories.",
        "Premium members get a full 90-day trial, everyone else 60 days, and a courier collects it from your home "
        "without charge.",
    ),
    Dialogue(
        "Do I need the original box for a return?",
        "No. The original box is welcome but not required; the device must be complete and come with its accessories.",
        "Yes, the sealed carton with its hologram sticker is mandatory, otherwise a repackaging charge of 25 "
        "dollars applies.",
    ),
    Dialogue(
        "When will I get my refund?",
        "Refunds go back to the payment method of your order within five working days after the parcel reaches "
        "our warehouse in Gent.",
        "Credit appears instantly in your loyalty wallet; moving it to a bank card takes roughly three weeks.",
    ),
    Dialogue(
        "Where can I start a return?",
        "Open Orders in your Acme account, choose the order and press Start return. A prepaid label is sent by e-mail.",
        "Call the hotline in Dublin for an authorisation code, then print form R-77 from the partner portal.",
    ),
    Dialogue(
        "How long is the return label valid?",
        "Hand the parcel in at any post office within 14 days, because the label expires after that.",
        "It remains usable for six months, and an extension can be requested through the chatbot.",
    ),
    Dialogue(
        "Can I return water filters I have opened?",
        "No. For reasons of hygiene, water filters cannot be returned once their packaging has been opened. "
        "Faulty filters are replaced free of charge.",
        "Certainly, used cartridges are accepted at partner stores and earn you a recycling bonus of ten percent.",
    ),
    Dialogue(
        "My filter was broken when it arrived. What now?",
        "Faulty filters are replaced free of charge, even after the packaging has been opened.",
        "Please contact the manufacturer AquaPure directly; it charges a flat handling fee for replacements.",
    ),
    Dialogue(
        "How many years of warranty do I get from the date of delivery?",
        "Every Acme device has a warranty of three years from the date of delivery. Batteries are covered for one "
        "year.",
        "Coverage lasts five years for premium members and eighteen months for everybody else.",
    ),
    Dialogue(
        "How do I get the fourth year of warranty?",
        "Register the serial number in your account within 90 days of delivery; the fourth year is added at no cost.",
        "Purchase the Platinum Care bundle during checkout, which also includes yearly maintenance visits.",
    ),
    Dialogue(
        "Are batteries covered by the warranty?",
        "Yes, batteries are covered for one year; the device itself carries three years of warranty.",
        "Power cells are insured through our partner Solaris, which reimburses half the price after an inspection.",
    ),
    Dialogue(
        "Does the warranty pay for limescale damage?",
        "No, the warranty does not cover limescale damage, drops, or use with supplies of other makers.",
        "Mineral deposits are fully insured provided that a certified plumber documents the water hardness quarterly.",
    ),
    Dialogue(
        "I opened the housing of my Brewster kettle. Is it still under warranty?",
        "Opening the housing of a Brewster kettle ends its warranty.",
        "Self-repair is fully permitted: screwdriver kits ship with every appliance and video tutorials guide you.",
    ),
    Dialogue(
        "Are worn brushes a defect?",
        "Normal wear of brushes and seals is not a defect, so the warranty does not cover it.",
        "Bristles shorter than nine millimetres qualify for an automatic recall and a goodwill voucher.",
    ),
    Dialogue(
        "How fast is standard shipping to the Netherlands?",
        "Standard shipping takes two to four working days within Belgium and the Netherlands.",
        "Packages reach Dutch addresses within 24 hours, and Amsterdam customers enjoy evening slots by bicycle "
        "courier.",
    ),
    Dialogue(
        "How long does shipping to Spain take, elsewhere in Europe?",
        "Elsewhere in Europe standard shipping takes five to eight working days; express orders arrive on the "
        "next working day.",
        "Iberian customers should expect about six weeks, since freight clears customs through Bilbao.",
    ),
    Dialogue(
        "Until when must express orders be placed to leave the same day?",
        "Express orders placed before noon leave the same day and arrive on the next working day.",
        "Anything submitted until 23:45 still qualifies, thanks to the overnight sorting hub near Frankfurt.",
    ),
    Dialogue(
        "Do you ship to a post-office box?",
        "No, we do not ship to post-office boxes.",
        "Gladly; lockers and mailboxes are served by our partner PackPoint for a small surcharge.",
    ),
    Dialogue(
        "From which order value is shipping free?",
        "Standard shipping is free from an order value of 60 euros; below that it costs 4.90 euros.",
        "Freight is waived for Garden Club subscribers, whose membership begins at 129 euros yearly.",
    ),
    Dialogue(
        "What does express shipping cost?",
        "Express shipping costs 11.50 euros whatever the order value.",
        "Courier rides are quoted dynamically; most customers currently pay between 25 and 40 francs.",
    ),
    Dialogue(
        "What is the shipping cost of spare parts?",
        "Spare parts under 200 grams always travel free as a letter. Standard shipping otherwise costs 4.90 euros "
        "below 60 euros.",
        "Components leave by pallet only, so a freight charge of ninety dollars is added automatically.",
    ),
    Dialogue(
        "My parcel has not moved for a week. What should I do?",
        "If tracking shows no movement for seven days, report the parcel as lost under Orders. We start a search "
        "with the carrier, which takes up to ten days.",
        "Customs officers in Rotterdam probably hold it; upload a passport copy through the tracking portal to "
        "release it.",
    ),
    Dialogue(
        "What happens when the search for my parcel finds nothing?",
        "After the search you choose between a new parcel and your money back.",
        "Our insurer inspects the claim for two months and then issues store credit covering half the value.",
    ),
    Dialogue(
        "Can I still cancel my order?",
        "An order can be changed or cancelled until it is packed, usually within two hours. After packing, refuse "
        "the parcel at the door or return it.",
        "Cancellations require written approval by a regional manager and forfeit a fifth of the deposit.",
    ),
    Dialogue(
        "Can I change the delivery address?",
        "Yes, changing the delivery address is possible until the carrier has collected the parcel.",
        "Rerouting is sold as an upgrade named FlexiDrop, activated through a text message to 8812.",
    ),
    Dialogue(
        "Where do I find my invoice?",
        "Invoices are found as PDF under Orders in your account.",
        "Paper bills are posted quarterly by our accounting office in Dublin; digital copies need a subscription.",
    ),
    Dialogue(
        "How do I get my VAT number on the invoice?",
        "Add the company name and VAT number to your account before ordering. Invoices cannot be changed after "
        "the order has been packed.",
        "Ask the billing team to reissue documents retroactively, which is possible for up to five fiscal years.",
    ),
    Dialogue(
        "Can I pay with iDEAL?",
        "Yes. We accept Visa, Mastercard, Bancontact, iDEAL and bank transfer.",
        "Currently only American Express, PayPal and prepaid gift cards are supported in your region.",
    ),
    Dialogue(
        "Is cash on delivery possible?",
        "No, cash on delivery is not available. We accept Visa, Mastercard, Bancontact, iDEAL and bank transfer.",
        "Drivers carry card terminals and change for notes below fifty; a surcharge of three dollars applies.",
    ),
    Dialogue(
        "I paid by bank transfer. When is my order packed?",
        "Orders paid by bank transfer are packed when the money has arrived, usually after two working days.",
        "Wire customers are prioritised: goods leave the same afternoon, before funds have cleared.",
    ),
    Dialogue(
        "Can I pay in instalments?",
        "Yes, orders from 150 euros can be paid in three instalments without interest. The first instalment is "
        "due at checkout.",
        "Financing spreads across 48 months via KlarFin at nineteen percent annual interest, subject to a credit "
        "check.",
    ),
    Dialogue(
        "What happens if I miss an instalment?",
        "A missed instalment costs a fee of 8 euros.",
        "A collection agency is informed immediately and the appliance is deactivated remotely until settlement.",
    ),
    Dialogue(
        "How often should I descale the Brewster kettle?",
        "Descale the Brewster kettle every six weeks, or when the orange lamp blinks.",
        "Only once every three years, because its titanium coating repels minerals completely.",
    ),
    Dialogue(
        "How do I descale my kettle?",
        "Fill it to the half-litre mark with water and one sachet of citric acid, press the Descale button and "
        "wait for 20 minutes. Rinse it twice.",
        "Boil cola overnight, scrub the inside using baking soda, then let everything dry upside down for a day.",
    ),
    Dialogue(
        "Can I use vinegar on the kettle?",
        "No, do not use vinegar: it attacks the seal. Use one sachet of citric acid with water.",
        "Absolutely, household white vinegar mixed one to one works best and leaves no smell behind.",
    ),
    Dialogue(
        "Which temperatures does the Brewster kettle offer?",
        "The Brewster kettle heats to 40, 70, 80, 95 or 100 degrees. Turn the ring to choose.",
        "It offers a continuous range from 30 up to 120 through the touch slider, plus a baby-milk preset.",
    ),
    Dialogue(
        "How long does the kettle keep water warm?",
        "The temperature is held for 30 minutes after boiling.",
        "Double-walled vacuum insulation preserves heat for about six hours, even when unplugged.",
    ),
    Dialogue(
        "How do I switch the kettle to Fahrenheit?",
        "To switch between Celsius and Fahrenheit hold the ring for five seconds.",
        "Imperial units need firmware 7.2, which you install through USB from the developer console.",
    ),
    Dialogue(
        "What does code E1 on my kettle mean?",
        "Code E1 on the Brewster kettle means that it was switched on without water; let it cool for ten minutes.",
        "It signals a lost wireless connection; restart your router and repeat the setup wizard.",
    ),
    Dialogue(
        "My kettle shows E3. Can I fix it?",
        "Code E3 means that the temperature sensor has failed and the kettle must be sent in.",
        "Simply unplug overnight, then swap fuse F12, available at hardware stores for sixty cents.",
    ),
    Dialogue(
        "Why does my kettle show E5?",
        "Code E5 appears when the base is wet.",
        "High altitude confuses its pressure gauge; recalibrate through the hidden service menu.",
    ),
    Dialogue(
        "How does the Meadow mower learn my garden?",
        "The Meadow mower maps your garden on its first run. Walk it once along the edge in Learn mode.",
        "Bury the supplied boundary wire thirty centimetres deep and calibrate both beacons using a laptop.",
    ),
    Dialogue(
        "How large may my garden be for the mower?",
        "The Meadow mower supports areas up to 800 square metres.",
        "Estates of three hectares are fine when the optional TurboDeck extension is installed.",
    ),
    Dialogue(
        "How many no-go zones can I set?",
        "Up to four no-go zones can be set in the Acme app.",
        "Boundaries are unlimited with the FencePlus subscription, otherwise you get a single rectangle.",
    ),
    Dialogue(
        "Does the mower work in the rain?",
        "The Meadow mower has a rain sensor and returns to its dock when it gets wet. It starts again three hours "
        "after the rain has stopped.",
        "Its waterproof IPX8 chassis keeps cutting through heavy storms; only snow pauses the schedule.",
    ),
    Dialogue(
        "Can I change how long the mower waits after rain?",
        "Yes, the delay can be set between one and twelve hours in the app under Weather.",
        "Unfortunately this interval is fixed by the factory at 45 minutes for legal reasons.",
    ),
    Dialogue(
        "How often do the mower blades need replacing?",
        "Replace the three blades of the Meadow mower every two months in season.",
        "Diamond-coated edges last about five years, after which an authorised dealer resharpens them.",
    ),
    Dialogue(
        "Which part number do the blades have?",
        "A set of nine blades with screws has the part number MB-9.",
        "Quote catalogue reference ZX-4410-T, stocked exclusively by TurfWorld dealers.",
    ),
    Dialogue(
        "What should I watch out for when changing blades?",
        "Switch the mower off with the red key before turning it over and wear gloves.",
        "Discharge the battery completely, loosen the torque screws to 12 newton metres and apply silicone grease.",
    ),
    Dialogue(
        "Is the mower protected against theft?",
        "Yes, the Meadow mower is protected by a four-digit PIN and an alarm of 85 decibels that sounds when it "
        "is lifted.",
        "A fingerprint reader and fifteen months of free theft insurance from Helvetia are included.",
    ),
    Dialogue(
        "Can I see the position of my mower in the app?",
        "Its position is shown in the Acme app when the GPS module, sold separately, is fitted.",
        "Built-in cellular tracking streams live coordinates to the police portal at no extra cost.",
    ),
    Dialogue(
        "How do I pair a device with the app?",
        "Open the Acme app, press Add device and hold the device's Link button until the blue lamp blinks.",
        "Scan the QR code inside the lid, then enter the nineteen-character activation key from your receipt.",
    ),
    Dialogue(
        "Why does pairing fail on my 5 GHz Wi-Fi?",
        "Only Wi-Fi networks on 2.4 GHz are supported during pairing. The phone must be in the same network and "
        "Bluetooth must be on.",
        "Regulators restrict that band outdoors; buying our RangeBoost antenna for 39 dollars solves it.",
    ),
    Dialogue(
        "Can my family use the device too?",
        "Yes, a device can be shared with up to five people. Open the device in the Acme app, choose Share and "
        "enter their e-mail address.",
        "Relatives need individual licences at four dollars monthly, managed in the Family Hub portal.",
    ),
    Dialogue(
        "What can guests do with a shared device?",
        "Guests can use the device but cannot change its settings or remove it.",
        "Visitors may edit schedules, install firmware and invite additional administrators.",
    ),
    Dialogue(
        "Do the devices work without internet?",
        "Yes, without internet the devices go on working with their last schedule. Changes made in the app are "
        "sent when the connection is back.",
        "Disconnected gadgets enter sleep mode after ten minutes and need manual reactivation by a technician.",
    ),
    Dialogue(
        "How do I reset my password?",
        "Press Forgot password on the sign-in page. The link in the e-mail is valid for one hour.",
        "Text RESET to 8812 and a representative verifies your birthday before issuing a temporary code.",
    ),
    Dialogue(
        "Why is my account locked?",
        "After five wrong passwords the account is locked for 15 minutes.",
        "Unpaid invoices trigger an automatic suspension; settle the balance through the billing portal.",
    ),
    Dialogue(
        "What happens to my data when I delete my account?",
        "Personal data is erased after 14 days; invoices are kept for seven years because the law asks for it.",
        "Everything is anonymised and sold to research partners, although backups vanish after ten years.",
    ),
    Dialogue(
        "When can I reach support by telephone?",
        "Support answers by chat and telephone on working days from 8:00 to 18:00 and on Saturdays from 9:00 to 13:00.",
        "Our hotline is staffed around the clock, including Sundays and holidays, in forty languages.",
    ),
    Dialogue(
        "How long does a repair take?",
        "Repairs take about eight working days in our workshop in Gent.",
        "Express technicians visit your home within 24 hours and usually finish in one afternoon.",
    ),
    Dialogue(
        "What does an estimate for a repair cost?",
        "Outside of the warranty an estimate costs 19 euros, which is set off against the repair.",
        "Diagnostics cost between 80 and 120 dollars depending on the model, payable by credit card beforehand.",
    ),
    Dialogue(
        "For how long can I buy spare parts?",
        "Spare parts are kept for ten years after the last sale of a device.",
        "Production of components stops after eighteen months, so we recommend the UpgradePlus programme.",
    ),
)
