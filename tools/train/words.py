# SPDX-License-Identifier: Apache-2.0
"""Word lists that the generated documents are made of. Order matters: it fixes token ids."""

FIRST_NAMES = """Alice Adam Agnes Albert Amelia Andrew Anna Anton Arthur Aurora Barbara Basil Beatrice Benjamin
Bernard Bertha Boris Brenda Bruno Camilla Carla Caspar Cecilia Charles Clara Clement Colin Conrad Cora Cyril Daisy
Daniel Daphne David Deborah Dennis Diana Dorothy Douglas Edgar Edith Edmund Edward Eleanor Elias Elsa Emil Emma Eric
Esther Eugene Eva Fabian Felix Fiona Flora Francis Frank Freda Gabriel George Gerald Gloria Grace Gregory Greta
Gustav Hannah Harold Harriet Hector Helen Henry Herbert Hilda Horace Hugo Ida Ingrid Irene Isaac Isabel Ivan Jacob
James Jasper Joanna John Judith Julian Karl Katherine Keith Laura Lawrence Leo Leonard Lillian Louis Lucas Lucy
Lydia Magnus Marcus Margaret Maria Martin Matilda Maurice Miriam Monica Nathan Nicholas Nora Norman Olga Oliver
Oscar Otto Patrick Paula Pauline Peter Philip Rachel Ralph Raymond Rebecca Robert Roland Rosa Ruth Samuel Sarah
Sidney Simon Sophia Stella Susan Theodore Thomas Ursula Valentine Vera Victor Viola Walter Wanda William Winifred""".split()

LAST_NAMES = """Abbot Archer Atwood Bailey Baines Barker Barlow Barnes Baxter Beck Bishop Blake Booth Bowen Bradley
Brewer Briggs Brown Burke Burton Butler Byrne Carver Castle Chandler Clarke Coleman Collins Cooper Cross Curtis
Dalton Dawson Dixon Doyle Drake Dudley Eaton Ellis Emerson Evans Farrell Fenton Finch Fisher Fletcher Foster Fox
Francey Fuller Gardner Garner Gibson Gilbert Glover Goodwin Graham Grant Graves Green Griffin Hale Hammond Harding
Harper Hart Hawkins Hayes Henson Hewitt Hobbs Holland Holmes Hooper Howard Hudson Hunter Hurst Irving Jarvis Jenkins
Jennings Keller Kemp Kendall Knight Lambert Lane Larkin Lawson Lester Lloyd Logan Lowe Lynch Manning Marlow Marsh
Mason Mercer Miller Milton Morgan Morris Morton Nash Newman Nolan Norris Norton Oakley Osborne Owens Palmer Parker
Parsons Pearson Perkins Pierce Porter Potter Powell Quinn Ramsey Randall Reeves Rhodes Rowe Russell Sawyer Saxton
Shaw Shepherd Slater Spencer Stafford Stone Sutton Talbot Tanner Taylor Thorne Tucker Turner Underwood Vance Vaughan
Wade Walker Wallace Walsh Warner Watson Weaver Webster Wheeler Whitman Wilkins Winter Wood Wright Yates Young""".split()

_STEMS = "Harrow Ash Elm Wex Brack Thorn Oak Raven Mill Green Lang Stan Wal Ayl Brom Cray Dun Ever Fal Glen".split()
_ENDS = "gate ford bury ton mere wick dale field".split()
PLACES = [a + b for a in _STEMS for b in _ENDS]

FIRM_FIRST = """Silver Golden Northern Southern Eastern Western Royal Union Crown Anchor Falcon Granite Crystal Summit
Harvest Beacon Cedar Copper Imperial Liberty Meadow Pioneer Phoenix Sterling""".split()
FIRM_SECOND = """Foundry Brewery Bakery Laboratory Shipyard Printers Railway Museum Hospital College Theatre Library
Workshop Quarry Insurance Textiles Pottery Dairy Nursery Observatory Archive Orchestra Bank Press""".split()
COLOURS = """crimson scarlet amber ochre saffron lemon olive emerald jade teal turquoise azure cobalt indigo violet
lilac magenta maroon russet bronze ivory charcoal pearl khaki""".split()
INSTRUMENTS = """piano violin cello flute oboe clarinet bassoon trumpet trombone tuba harp lute guitar banjo mandolin
organ accordion drum zither viola""".split()

# attribute -> kind of value
ATTRIBUTES = {
    "home": "place", "birthplace": "place", "office": "place",
    "employer": "firm", "mentor": "person", "colour": "colour", "instrument": "instrument",
    "code": "phrase", "badge": "emblem", "locker": "number",
}

NOUNS = """baker bell boat book bridge candle carriage cat chair chimney church clerk clock cloud coat corner cottage
courtyard crowd curtain desk dog door engine evening farmer fence field fire fountain garden gate grocer hall harbour
hat hedge hill horse house inn island kettle kitchen ladder lake lamp lane lantern letter map market mason meadow
mill mirror morning mountain neighbour newspaper night notebook orchard parcel park path pigeon pond porter river
road roof room rope sailor school shelf ship shop shore square stable stair station stone storm stove street
table teacher tower town traveller tree tunnel valley village visitor wagon wall water well wheel wind window
wood yard""".split()
ADJECTIVES = """ancient bare bright broad broken busy calm careful cheerful clean cold cool dark deep distant dry
dusty early empty faint familiar famous fine flat fresh gentle grand grey heavy high hidden hollow late light little
lonely long loud low narrow neat new noisy old pale patient plain pleasant polite proud quick quiet rough round
shallow sharp short silent simple slow small smooth soft steep still strange strong sturdy sudden sunny tall thick
thin tidy tired warm weary wet wide wild wooden young""".split()
VERBS = """admired approached avoided called carried circled cleaned closed counted covered crossed described entered
examined faced followed found greeted guarded heard held ignored joined kept left lifted lost measured met missed
moved noticed opened painted passed praised pulled pushed reached recalled remembered repaired replaced saved searched
showed sketched studied touched visited watched welcomed""".split()
ADVERBS = """again almost always briefly calmly carefully gladly gradually half later loudly nearly never often once
perhaps promptly quickly quietly rarely seldom slowly sometimes soon suddenly twice usually""".split()
PREPOSITIONS = "above across after against along around before behind below beside between beyond near over past toward under".split()
TIMES = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday January March May July September November".split()
TITLES = "Letters Notes Records Minutes Reports Papers Diary Register Ledger Memoirs".split()
STARTERS = "The A In On At Later Before After Nobody Everyone Document Question Answer One Another Every No And But Then There It We They".split()
GLUE = """the a an of is was were are and or but in on at to from by with for that this it he she they we his her their
who which when where what then there not no one two three many some every each had has have been be said would could
into out up down as so than very still page chapter part about all only other more most over""".split()
PUNCTUATION = ". , : ; ? ! ' \" - ( ) / _ # * = + < > [ ] { } @ & % $".split()
