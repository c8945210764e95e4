from pintgn.cli import main

main()
